"""``latcast workgroups devices``."""

from __future__ import annotations

from latcast.cli.options import AsJson
from latcast.cli.output import print_json, print_table


def command(as_json: AsJson = False) -> None:
    """What OpenCL and WebGPU tell of the devices here; what they do not tell is said, not guessed."""
    from latcast.errors import MissingExtraError
    from latcast.workgroups.gpu_interfaces import GPU_INTERFACES

    found, absent = [], {}
    for name in GPU_INTERFACES.names():
        interface = GPU_INTERFACES.get(name)
        try:
            profiles = interface.profiles()
        except MissingExtraError as problem:
            absent[name] = str(problem)
            continue
        found += [(f"{name}:{index}", profile) for index, profile in enumerate(profiles)]
        if not profiles:
            absent[name] = f"{name} finds no device here; {interface.missing_driver()}"
    if as_json:
        print_json({"devices": [{"id": name, **profile.to_json()} for name, profile in found], "absent": absent})
        return
    rows = [
        [name, profile.title, _known(profile.compute_units), _known(profile.simultaneous_items),
         _known(profile.cache_line_bytes), str(profile.max_work_group_size),
         f"{profile.max_x}x{profile.max_y}x{profile.max_z}"]
        for name, profile in found
    ]  # fmt: skip
    columns = ("id", "device", "cores (N_sc)", "items at once (K_ac)", "cache line bytes", "most items", "most along x, y, z")
    print_table("", columns, rows)
    for source in dict.fromkeys(profile.source for _, profile in found):
        print(source)
    for why in absent.values():
        print(why)


def _known(value: int | None) -> str:
    return "not known" if value is None else str(value)

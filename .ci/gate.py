"""The steps of the GitHub Action: checks model files against a budget, and those that changed against their versions on the base.

Run in a checkout, with latcast importable; the environment holds the inputs (action.yml). Annotations go to standard output.
Exit codes are those of ``latcast check``: 3 where a check fails, 1 where a model could not be checked.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import typer

import latcast
from latcast.cli import options
from latcast.errors import LatcastError
from latcast.platforms import resolve_platforms
from latcast.report.check import LIKELY_GROWN, MOST_LIKELY, CheckReport, Refusal

NO_COMMIT = "0" * 40
"""The commit before the first one of a branch, as GitHub gives it."""


def main(inputs: Mapping[str, str]) -> int:
    """Check, write the reports, and return the exit code."""
    patterns = inputs["MODELS"].split()
    if not inputs["BUDGET"] and not inputs["PLATFORMS"]:
        raise LatcastError("found neither budget nor on; give a budget, or the platforms on which a model may not grow")
    given = percentage(inputs["FAIL_ABOVE"], "fail-above") if inputs["FAIL_ABOVE"] else None
    reports: list[CheckReport] = []
    if inputs["BUDGET"]:
        files = git("ls-files", "-z", "--", *patterns).split("\0")[:-1]
        if not files:
            raise LatcastError(f"found no tracked file that {inputs['MODELS']} matches; expected model files")
        reports.append(latcast.check([Path(each) for each in files], inputs["BUDGET"], fail_above=given))
    if inputs["PLATFORMS"]:
        platforms = options.platform_names(inputs["PLATFORMS"])
        resolve_platforms(platforms)  # so that an unknown one is refused where no file changed
        growth = percentage(inputs["MAX_GROWTH"], "max-growth")
        with tempfile.TemporaryDirectory() as folder:
            for path, before in changed_models(inputs["BASE"], patterns, Path(folder)):
                reports.append(growth_of(path, before, inputs["BASE"], platforms, growth, given))
    found = joined(reports)
    if inputs["GITHUB_STEP_SUMMARY"]:
        with Path(inputs["GITHUB_STEP_SUMMARY"]).open("a", encoding="utf-8") as summary:
            summary.write(found.to_markdown() + "\n")
    if inputs["JUNIT"]:
        Path(inputs["JUNIT"]).write_text(found.to_junit() + "\n", encoding="utf-8")
    print(found.to_github())
    if found.refused:
        return 1
    return 0 if found.passed else 3


def percentage(text: str, name: str) -> float:
    """Return the number of an input such as ``5%``.

    Raises:
        LatcastError: The text is not a percentage.
    """
    try:
        return options.quantity(text, name, {"%": 1, "": 1}, "a percentage such as 5%", may_be_zero=True)
    except typer.BadParameter as problem:
        raise LatcastError(problem.message) from None


def git(*arguments: str) -> str:
    """Return what git prints.

    Raises:
        LatcastError: It fails.
    """
    done = subprocess.run(["git", *arguments], capture_output=True, check=False)
    if done.returncode:
        raise LatcastError(f"git {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="surrogateescape")


def changed_models(base: str, patterns: Sequence[str], folder: Path) -> Iterator[tuple[Path, Path | None]]:
    """Yield each model file that differs from the base commit, with its version there, written below ``folder``.

    The version is None for a new file; a file that was renamed has that of its old name.
    """
    if not base or base == NO_COMMIT:
        print("::notice title=latcast::no base commit, so no file is compared with an earlier version")
        return
    if subprocess.run(["git", "cat-file", "-e", f"{base}^{{commit}}"], capture_output=True, check=False).returncode:
        git("fetch", "--quiet", "--depth=1", "origin", base)
        base = git("rev-parse", "FETCH_HEAD").strip()
    changes = git("diff", "--name-status", "-z", "--find-renames", "--diff-filter=AMR", base, "HEAD", "--", *patterns)
    fields = iter(changes.split("\0"))
    for status in fields:
        if not status:
            return
        old = new = next(fields)
        if status.startswith("R"):
            new = next(fields)
        if status == "A":
            yield Path(new), None
            continue
        before = folder / old
        before.parent.mkdir(parents=True, exist_ok=True)
        with before.open("wb") as file:  # with filters, so that a file in Git LFS is itself and not its pointer
            subprocess.run(["git", "cat-file", "--filters", f"{base}:{old}"], stdout=file, check=True)
        yield Path(new), before


def growth_of(
    path: Path, before: Path | None, base: str, platforms: Sequence[str], max_growth: float, fail_above: float | None
) -> CheckReport:
    """Return the checks of one file against its earlier version; a new file has none."""
    fail_above = LIKELY_GROWN if fail_above is None else fail_above
    if before is None:
        print(f"::notice file={path},title=latcast::a new file, with no earlier version to compare with")
        return CheckReport((), {}, fail_above, latcast.__version__)
    try:
        found = latcast.check(path, against=before, on=platforms, max_growth=max_growth, fail_above=fail_above)
    except LatcastError as problem:
        return CheckReport((), {}, fail_above, latcast.__version__, (Refusal(str(path), str(problem)),))
    return replace(
        found, checks=tuple(replace(each, model=str(path), base=f"its version at {base[:7]}") for each in found.checks)
    )


def joined(reports: Sequence[CheckReport]) -> CheckReport:
    """Return one report of several."""
    return CheckReport(
        tuple(one for report in reports for one in report.checks),
        {name: digest for report in reports for name, digest in report.bundles.items()},
        reports[0].fail_above if reports else MOST_LIKELY,
        latcast.__version__,
        tuple(one for report in reports for one in report.refused),
    )


if __name__ == "__main__":
    try:
        sys.exit(main(os.environ))
    except (LatcastError, OSError) as problem:
        print("::error title=latcast::" + str(problem).replace("%", "%25").replace("\n", "%0A"))
        sys.exit(1)

"""Zips from strangers, and writing that is seen whole or not at all."""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import Path

import pytest

from latcast.errors import BundleError
from latcast.predictors.bundle_files import MOST_BYTES, BundleFiles, is_bundle, is_pickle, write_files

FILES = {"platform.json": b"{}", "kernels/conv.safetensors": b"\x02\x00\x00\x00\x00\x00\x00\x00{}"}


def zipped(path: Path, entries: list[tuple[zipfile.ZipInfo | str, bytes]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return path


def refusal(path: Path, name: str = "platform.json") -> str:
    with pytest.raises(BundleError) as caught, BundleFiles(path) as files:
        files.read(name)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text.removeprefix(f"{path}: ")


class TestReading:
    @pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
    def test_what_was_written_is_read(self, tmp_path: Path, name: str) -> None:
        write_files(tmp_path / name, FILES)

        with BundleFiles(tmp_path / name) as files:
            assert {each: files.read(each) for each in files.names} == FILES

    def test_a_zip_made_by_another_tool_is_read(self, tmp_path: Path) -> None:
        path = zipped(tmp_path / "b.zip", [("kernels/", b""), *FILES.items()])

        with BundleFiles(path) as files:
            assert files.names == set(FILES)

    @pytest.mark.parametrize(
        "name", ["../platform.json", "/etc/passwd", "kernels/../../x.json", "kernels\\conv.safetensors", "C:/platform.json"]
    )
    def test_a_path_that_leads_out_is_refused(self, tmp_path: Path, name: str) -> None:
        entry = zipfile.ZipInfo()
        entry.filename = name

        text = refusal(zipped(tmp_path / "b.zip", [*FILES.items(), (entry, b"{}")]))

        assert text.startswith(f"found the path '{name}', expected names inside the bundle")
        assert text.endswith("do not use a bundle from this source")

    @pytest.mark.parametrize("name", ["model.pkl", "kernels/deep/a.safetensors", "bundle/platform.json", "kernels/A.safetensors"])
    def test_a_file_that_no_bundle_has_is_refused(self, tmp_path: Path, name: str) -> None:
        assert refusal(zipped(tmp_path / "b.zip", [(name, b"")])).startswith(
            f"found the file '{name}', expected only platform.json"
        )

    def test_a_folder_that_no_bundle_has_is_refused(self, tmp_path: Path) -> None:
        assert refusal(zipped(tmp_path / "b.zip", [("weights/", b"")])).startswith("found the folder 'weights/'")

    def test_a_small_zip_that_holds_gigabytes_is_refused_unread(self, tmp_path: Path) -> None:
        path = tmp_path / "bomb.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("card.json", "w") as file:
            for _ in range(MOST_BYTES // 10_000_000 + 1):
                file.write(bytes(10_000_000))

        assert path.stat().st_size < 1_000_000
        assert refusal(path).startswith("found 1 files of 210 MB, expected at most 500 files of 200 MB")

    def test_a_false_size_in_the_zip_directory_is_refused(self, tmp_path: Path) -> None:
        path = zipped(tmp_path / "b.zip", [("platform.json", bytes(1_000_000))])
        data = path.read_bytes()
        path.write_bytes(data.replace((1_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")))

        assert refusal(path).endswith("the bundle is damaged, get it again")

    def test_too_many_files_are_refused(self, tmp_path: Path) -> None:
        path = zipped(tmp_path / "b.zip", [(f"kernels/type{index}.safetensors", b"") for index in range(501)])

        assert refusal(path).startswith("found 501 files in the zip, expected at most 500")

    def test_a_file_twice_is_refused(self, tmp_path: Path) -> None:
        with pytest.warns(UserWarning, match="Duplicate name"):
            path = zipped(tmp_path / "b.zip", [("platform.json", b"{}"), ("platform.json", b"{}")])

        assert refusal(path).startswith("platform.json: found it twice, encrypted or as a link")

    def test_a_link_in_a_zip_is_refused(self, tmp_path: Path) -> None:
        entry = zipfile.ZipInfo("platform.json")
        entry.external_attr = (stat.S_IFLNK | 0o777) << 16

        assert refusal(zipped(tmp_path / "b.zip", [(entry, b"/etc/passwd")])).startswith("platform.json: found it twice, enc")

    def test_an_encrypted_file_is_refused(self, tmp_path: Path) -> None:
        path = zipped(tmp_path / "b.zip", [("platform.json", b"{}")])
        data = bytearray(path.read_bytes())
        for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            data[data.index(signature) + offset] |= 1
        path.write_bytes(data)

        assert refusal(path).startswith("platform.json: found it twice, encrypted or as a link")

    @pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
    def test_a_file_packed_by_another_method_is_refused(self, tmp_path: Path, method: int) -> None:
        entry = zipfile.ZipInfo("platform.json")
        entry.compress_type = method

        assert "packed otherwise than by deflate" in refusal(zipped(tmp_path / "b.zip", [(entry, b"{}")]))

    def test_a_file_without_a_name_is_refused(self, tmp_path: Path) -> None:
        path = zipped(tmp_path / "b.zip", [("x", b"{}")])
        data = bytearray(path.read_bytes())
        # The letter of the name becomes a further field of one byte, before the file and in the directory.
        for signature, length in ((b"PK\x03\x04", 26), (b"PK\x01\x02", 28)):
            place = data.index(signature) + length
            data[place], data[place + 2] = 0, 1
        path.write_bytes(data)

        assert "without a name" in refusal(path)

    def test_a_directory_of_more_files_than_a_bundle_has_is_not_read(self, tmp_path: Path) -> None:
        path = zipped(tmp_path / "b.zip", [(f"{number:060}", b"") for number in range(1000)])

        assert refusal(path).startswith("found a zip that lists more than 500 files")

    def test_flipped_bits_are_noticed(self, tmp_path: Path) -> None:
        write_files(tmp_path / "b.zip", {"platform.json": b'{"schema": 1}'})
        data = (tmp_path / "b.zip").read_bytes()
        (tmp_path / "b.zip").write_bytes(data.replace(b'"schema": 1', b'"schema": 2'))

        assert refusal(tmp_path / "b.zip").startswith("platform.json: Bad CRC-32")

    @pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"no zip at all" * 100])
    def test_a_file_other_than_a_zip_is_refused(self, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "b.zip").write_bytes(data)

        assert refusal(tmp_path / "b.zip").startswith("found no readable zip (")

    def test_a_truncated_zip_is_refused(self, tmp_path: Path) -> None:
        write_files(tmp_path / "b.zip", FILES)
        data = (tmp_path / "b.zip").read_bytes()
        (tmp_path / "b.zip").write_bytes(data[: len(data) // 2])

        assert refusal(tmp_path / "b.zip").startswith("found no readable zip (")

    def test_a_missing_bundle_is_refused(self, tmp_path: Path) -> None:
        assert refusal(tmp_path / "gone.zip") == "found nothing, expected a bundle (a folder or a .zip); check the path"


class TestPickles:
    def test_the_length_of_a_safetensors_header_is_not_taken_for_a_pickle(self) -> None:
        header = b"{" + b" " * 1151  # 1152 is 0x0480: the bytes 80 04 begin a pickle of protocol 4, too
        data = (1152).to_bytes(8, "little") + header

        assert data[:2] == b"\x80\x04"
        assert not is_pickle(data)

    @pytest.mark.parametrize("protocol", [2, 3, 4, 5])
    def test_pickles_are_recognised(self, protocol: int) -> None:
        import pickle

        assert is_pickle(pickle.dumps([1, 2, 3], protocol=protocol))

    def test_numpy_and_torch_files_are_refused_by_their_name(self, tmp_path: Path) -> None:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("archive/data.pkl", b"\x80\x02}q\x00.")
        (tmp_path / "model.zip").write_bytes(buffer.getvalue())

        assert refusal(tmp_path / "model.zip").startswith("found the file 'archive/data.pkl'")


class TestWriting:
    @pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
    def test_writing_leaves_no_temporary_files(self, tmp_path: Path, name: str) -> None:
        for _ in range(2):
            write_files(tmp_path / name, FILES)

        assert [path.name for path in tmp_path.iterdir()] == [name]

    @pytest.mark.parametrize("name", ["bundle", "bundle.zip"])
    def test_a_failure_leaves_the_old_bundle(self, tmp_path: Path, name: str) -> None:
        write_files(tmp_path / name, FILES)

        # A name that neither file systems nor zips can hold.
        with pytest.raises(UnicodeEncodeError):
            write_files(tmp_path / name, {"platform.json": b"new", "\ud800": b""})

        assert [path.name for path in tmp_path.iterdir()] == [name]
        with BundleFiles(tmp_path / name) as files:
            assert files.read("platform.json") == b"{}"

    def test_an_empty_folder_is_filled(self, tmp_path: Path) -> None:
        (tmp_path / "bundle").mkdir()

        write_files(tmp_path / "bundle", FILES)

        assert is_bundle(tmp_path / "bundle")

    @pytest.mark.parametrize("name", ["notes", "folder.zip"])
    def test_other_files_at_the_path_are_not_overwritten(self, tmp_path: Path, name: str) -> None:
        if name == "notes":
            (tmp_path / name).write_text("mine")
        else:
            (tmp_path / name).mkdir()

        with pytest.raises(BundleError, match="found something other than a bundle, expected nothing or a bundle to replace"):
            write_files(tmp_path / name, FILES)

        assert (tmp_path / name).exists()

    def test_a_place_that_cannot_be_written_to_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")

        with pytest.raises(BundleError, match=r"b\.zip: cannot be written: .*; choose another place"):
            write_files(tmp_path / "file" / "b.zip", FILES)

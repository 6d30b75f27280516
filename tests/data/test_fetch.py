"""Downloads from a server on this machine, archives that mean harm, and checks of what is on disk."""

from __future__ import annotations

import hashlib
import http.server
import io
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import tempora_tta.data as data
from tempora_tta.data import imagenet, registry
from tempora_tta.data.fetch import download, fetch, unpack
from tempora_tta.data.registry import Archive
from tempora_tta.data.verify import verify
from tempora_tta.errors import TemporaError


@dataclass
class _Server:
    """State of the little file server: its content, its behaviour, and the requests that it got."""

    content: bytes = b""
    stop_at: int | None = None
    """Send nothing beyond this position."""
    ranges: bool = True
    asked: list[str | None] = field(default_factory=list)
    url: str = ""


@pytest.fixture
def server() -> Iterator[_Server]:
    state = _Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append(wanted)
            if "absent" in self.path:
                self.send_error(404)
                return
            resume = wanted and state.ranges
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and resume else 0
            if start >= len(state.content):
                self.send_error(416)
                return
            body = state.content[start:]
            self.send_response(206 if resume else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            end = None if state.stop_at is None else max(0, state.stop_at - start)
            self.wfile.write(body[:end])

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        state.url = f"http://127.0.0.1:{httpd.server_port}"
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield state
        httpd.shutdown()
        thread.join()


def _tar(members: dict[str, bytes], compression: str = "gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{compression}") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


class TestDownload:
    def test_whole_with_progress_and_only_once(self, server: _Server, tmp_path: Path) -> None:
        server.content, seen = b"x" * 3_000_000, []
        archive = Archive(f"{server.url}/a.tar", _md5(server.content))
        for _ in range(2):
            path = download(archive, tmp_path / "new", lambda *progress: seen.append(progress))
        assert path.read_bytes() == server.content
        assert seen[-1] == ("a.tar", 3_000_000, 3_000_000)
        assert server.asked == [None]
        assert [file.name for file in path.parent.iterdir()] == ["a.tar"]

    def test_a_later_run_resumes(self, server: _Server, tmp_path: Path) -> None:
        server.content, server.stop_at = bytes(range(200)), 60
        archive = Archive(f"{server.url}/a.tar", _md5(server.content))
        with pytest.raises(
            TemporaError, match=r"broke off after 60 of 200 bytes.*goes on where it broke off"
        ):
            download(archive, tmp_path)
        server.stop_at = None
        assert download(archive, tmp_path).read_bytes() == server.content
        assert server.asked == [None, "bytes=60-"]

    def test_a_wrong_checksum(self, server: _Server, tmp_path: Path) -> None:
        server.content = b"damaged"
        with pytest.raises(TemporaError, match=f"MD5 {_md5(b'damaged')}, published is {_md5(b'sound')}"):
            download(Archive(f"{server.url}/a.tar", _md5(b"sound")), tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["a.tar.wrong"]
        server.content = b"sound"
        assert download(Archive(f"{server.url}/a.tar", _md5(b"sound")), tmp_path).read_bytes() == b"sound"

    def test_no_network(self, tmp_path: Path) -> None:
        url = "http://127.0.0.1:9/a.tar"  # the discard port, on which no server listens
        with pytest.raises(
            TemporaError, match=f"cannot download {url}.*by hand, save it as {tmp_path}/a.tar"
        ):
            download(Archive(url, _md5(b"by hand")), tmp_path)
        (tmp_path / "a.tar").write_bytes(b"by hand")
        assert download(Archive(url, _md5(b"by hand")), tmp_path) == tmp_path / "a.tar"


class TestUnpack:
    def test_files_and_folders(self, tmp_path: Path) -> None:
        archive = tmp_path / "a.tar.gz"
        archive.write_bytes(_tar({"x/a.txt": b"one", "x/y/b.txt": b"two"}))
        assert unpack(archive, tmp_path / "out") == 2
        assert (tmp_path / "out/x/y/b.txt").read_bytes() == b"two"

    @pytest.mark.parametrize("name", ["/etc/evil", "../evil", "x/../../evil", "C:/evil", "x\\..\\evil"])
    def test_nothing_is_written_outside_the_folder(self, tmp_path: Path, name: str) -> None:
        archive = tmp_path / "a.tar.gz"
        archive.write_bytes(_tar({"good": b"1", name: b"2"}))
        with suppress(TemporaError):
            unpack(archive, tmp_path / "out")
        assert not Path("/etc/evil").exists()
        assert all((tmp_path / "out") in path.parents for path in tmp_path.rglob("*evil*"))

    @pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
    def test_devices_and_links_to_the_outside_are_refused(self, tmp_path: Path, kind: bytes) -> None:
        archive = tmp_path / "a.tar"
        with tarfile.open(archive, "w") as tar:
            info = tarfile.TarInfo("innocent")
            info.type, info.linkname = kind, "/etc/passwd"
            tar.addfile(info)
        with pytest.raises(TemporaError, match="cannot be unpacked"):
            unpack(archive, tmp_path / "out")
        assert list((tmp_path / "out").iterdir()) == []

    def test_a_flipped_bit_changes_no_file_without_an_error(self, tmp_path: Path) -> None:
        """Wherever it is: in the pictures, in the padding after the last one, or in the checksum itself."""
        members = {f"x/{i}": bytes([i]) * 3000 for i in range(3)}
        sound = _tar(members)
        archive, out = tmp_path / "a.tar.gz", tmp_path / "out"
        caught = 0
        for position in range(len(sound)):
            shutil.rmtree(out, ignore_errors=True)
            archive.write_bytes(sound[:position] + bytes([sound[position] ^ 4]) + sound[position + 1 :])
            try:
                unpack(archive, out)
            except TemporaError:
                caught += 1
                continue
            # there are bits that mean nothing, such as the time in gzip's header
            assert {f"x/{path.name}": path.read_bytes() for path in (out / "x").iterdir()} == members
        assert caught > 0.9 * len(sound)


@pytest.fixture
def toy(server: _Server, monkeypatch: pytest.MonkeyPatch) -> _Server:
    """A dataset `toy` on the little server: one packed archive and one plain file."""
    data.datasets()
    monkeypatch.setattr(registry, "_DATASETS", dict(registry._DATASETS))
    server.content = _tar({"Toy/a.txt": b"a"})
    card = {
        "what": "toy",
        "size": "1",
        "licence": "none",
        "source": "here",
        "folder": "Toy",
        "layout": "Toy/",
    }

    @data.dataset(
        "toy",
        **card,
        archives=[Archive(f"{server.url}/toy.tar.gz"), Archive(f"{server.url}/plain.npy", into="Toy")],
    )
    def toy(root: Path) -> dict[str, data.Shift]:
        return {}

    return server


class TestFetch:
    def test_archives_are_unpacked_and_plain_files_put_in_place(self, toy: _Server, tmp_path: Path) -> None:
        said: list[str] = []
        folder = fetch("toy", tmp_path, say=said.append)
        assert folder == tmp_path / "Toy"
        assert (folder / "a.txt").read_bytes() == b"a"
        assert (folder / "plain.npy").read_bytes() == toy.content
        assert f"fetching {toy.url}/toy.tar.gz" in said
        fetch("toy", tmp_path)
        assert len(toy.asked) == 2

    def test_only_one(self, toy: _Server, tmp_path: Path) -> None:
        fetch("toy", tmp_path, only=["plain.npy"])
        assert {path.name for path in tmp_path.rglob("*")} == {"Toy", "plain.npy"}
        with pytest.raises(TemporaError, match=r"unknown archive of toy 'toy.tar': did you mean"):
            fetch("toy", tmp_path, only=["toy.tar"])


class TestVerify:
    def test_all_severities_are_opened_and_counted(self, tmp_path: Path) -> None:
        root = tmp_path / "CIFAR-10-C"
        root.mkdir()
        np.save(root / "labels.npy", np.tile(np.arange(10_000) % 10, 5))
        np.lib.format.open_memmap(root / "fog.npy", "w+", np.uint8, (50_000, 32, 32, 3))
        np.lib.format.open_memmap(root / "snow.npy", "w+", np.uint8, (50_001, 32, 32, 3))
        checks = list(verify(tmp_path))
        assert ("cifar10_c: fog 5", True, "10000 images, 10 of 10 classes") in {
            (check.what, check.ok, check.detail) for check in checks
        }
        wrong = [check.what for check in checks if not check.ok]
        assert wrong == [f"cifar10_c: snow {severity}" for severity in range(1, 6)]

    def test_every_image(self, class_tree: Callable[..., Path]) -> None:
        wnids = list(imagenet.label_of())
        root = class_tree("val", wnids[:2], each=3)
        bad = root / wnids[1] / "2.jpg"
        bad.write_bytes(bad.read_bytes()[:300])
        (root / "classes.txt").write_text("\n".join(wnids))
        assert all(check.ok for check in verify(root, "folder"))
        wrong = [check for check in verify(root, "folder", decode=True) if not check.ok]
        assert len(wrong) == 1
        assert str(bad) in wrong[0].detail
        bad.unlink()
        assert [check.detail for check in verify(root, "folder", decode=True)][
            -1
        ] == "all 5 images can be decoded"

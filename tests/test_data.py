"""Data sets and batches: fixed parts, checks, files, downloads, and an order that follows from the seed alone."""

import gzip
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import asdict, fields
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra.utils import get_class, instantiate
from omegaconf import OmegaConf
from torch import nn

from experiments.data import cifar10, files, idx, load
from experiments.data.batches import Batches, order
from experiments.data.cifar10 import Cifar10
from experiments.data.dataset import DataError, Dataset, Part
from experiments.data.digits import Digits, read
from experiments.data.fake import Fake
from experiments.data.fashion_mnist import FashionMnist
from experiments.data.mnist import Mnist
from experiments.data.mnist1d import Mnist1d
from experiments.data.parts import cut, standardise

ROOT = Path(__file__).parents[1]
CONF = sorted((ROOT / "conf" / "data").glob("*.yaml"))
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
needs_debian = pytest.mark.skipif(not DEBIAN.is_dir(), reason="Debian's dataset-fashion-mnist is not installed")
NEED_FILES = {"cifar10", "fashion_mnist", "mnist"}
OFFLINE = [instantiate(OmegaConf.load(path)) for path in CONF if path.stem not in NEED_FILES]
OFFLINE += [pytest.param(FashionMnist(root=str(DEBIAN)), marks=needs_debian)]
IMAGES = (Digits, Mnist1d, Fake, FashionMnist)  # standardised by their training part
SMALL = {"train": 50, "t10k": 20}  # counts of the small copies of idx files below


def python(code: str, *args: object) -> "subprocess.Popen[str]":
    env = {**os.environ, "PYTHONPATH": str(ROOT), "no_proxy": "*"}
    argv = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: "subprocess.Popen[str]") -> str:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def write_idx(folder: Path, seed: int = 0) -> None:
    """Small files of MNIST's format and names."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = np.random.RandomState(seed)
    for prefix, n in SMALL.items():
        for kind, shape in (("images-idx3", (n, 28, 28)), ("labels-idx1", (n,))):
            header = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">i4").tobytes()
            body = draw.randint(0, 10, shape).astype(np.uint8).tobytes()
            (folder / f"{prefix}-{kind}-ubyte.gz").write_bytes(gzip.compress(header + body, 1))


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in [folder, *folder.rglob("*")]}


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A folder of small idx files, which the loader takes for whole."""
    monkeypatch.setattr(idx, "COUNTS", SMALL)
    write_idx(tmp_path / "idx")
    return tmp_path / "idx"


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", CONF, ids=lambda path: path.stem)
def test_option_is_its_class(path):
    conf = OmegaConf.load(path)
    cls = get_class(conf._target_)
    assert cls.__module__ == f"experiments.data.{path.stem}"
    assert list(conf)[1:] == [field.name for field in fields(cls)]
    assert instantiate(conf) == cls() == eval(repr(cls()), {cls.__name__: cls})
    assert {"root", "download"} <= asdict(cls()).keys()
    assert cls().classes >= 2
    assert len(cls().input_shape) >= 1


def test_every_option_is_tested():
    assert len(OFFLINE) + len(NEED_FILES) - 1 == len(CONF) >= 6


@pytest.mark.slow
@pytest.mark.parametrize("option", OFFLINE, ids=lambda option: type(option).__name__)
def test_laws(option):
    cuda = torch.cuda.get_rng_state_all()
    states = torch.get_rng_state(), random.getstate(), str(np.random.get_state())
    data = load(option)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert all(map(torch.equal, torch.cuda.get_rng_state_all(), cuda))
    assert (random.getstate(), str(np.random.get_state())) == states[1:]
    assert (data.classes, data.input_shape) == (option.classes, option.input_shape)
    assert {part.y.unique().numel() for part in data.parts.values()} == {option.classes}
    if isinstance(option, IMAGES):
        assert abs(data.train.x.mean()) < 0.01
        assert abs(data.train.x.std() - 1) < 0.01
    seen = [set(map(bytes, part.x.numpy())) for part in data.parts.values()]
    assert sum(map(len, seen)) - len(set.union(*seen)) <= 0.001 * len(data.train)  # Fashion-MNIST has a few twins
    assert load(option) is data


@pytest.mark.slow
@needs_debian
def test_parts_and_hashes_are_the_same_in_another_process_and_on_one_thread():
    code = """if True:
        import json, sys, torch
        torch.set_num_threads(1), torch.manual_seed(7)
        from experiments.data import digits, fake, fashion_mnist, mnist1d
        options = digits.Digits(), mnist1d.Mnist1d(), fake.Fake(), fashion_mnist.FashionMnist(sys.argv[1])
        hashes = [option.load().hashes() for option in options]
        assert "sklearn" not in sys.modules
        print(json.dumps(hashes))"""
    other = python(code, DEBIAN)
    here = [load(option).hashes() for option in (Digits(), Mnist1d(), Fake(), FashionMnist(str(DEBIAN)))]
    assert json.loads(finish(other)) == here
    # Integer sums and IEEE arithmetic make these two the same on every machine.
    assert [h["train"][:16] for h in (here[0], here[3])] == ["48f62296b251313b", "f612a7d61681a129"]


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    x, y = read()
    theirs = load_digits()
    assert np.array_equal(x.squeeze(1).numpy(), theirs.images)
    assert np.array_equal(y.numpy(), theirs.target)
    ours = load(Digits())
    assert [len(part) for part in ours.parts.values()] == [1079, 359, 359]


@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 9)])
def test_channels_are_standardised_by_the_training_part(shape):
    images = torch.randint(0, 256, (60, *shape), dtype=torch.uint8), torch.arange(60) % 10
    images[0][:, 1] = 5  # a constant channel
    parts = cut(images, 40, 10, 10)
    assert sorted(torch.cat([part[0][:, 0].flatten(1)[:, 0] for part in parts])) == sorted(
        images[0][:, 0].flatten(1)[:, 0]
    )
    data = standardise("test", 10, *parts)
    first = parts[0][0][:, 0].double()
    expected = (parts[2][0][:, 0] - first.mean()) / first.std(correction=0)
    torch.testing.assert_close(data.test.x[:, 0], expected.float())
    assert (data.train.x[:, 1] == 0).all()


@pytest.mark.parametrize("wrong", [{"size": 3}, {"classes": 0}, {"channels": 5}, {"channels": 0}, {"side": 0}])
def test_fake_refuses_what_it_cannot_draw(wrong):
    with pytest.raises(ValueError, match=rf"data\.{next(iter(wrong))}=\d must be at"):
        Fake(**wrong)


# --- checks ----------------------------------------------------------------------------------------------------------


def dataset(x=None, y=None, classes=10):
    good = Part(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64))
    return Dataset("test", classes, good, Part(good.x if x is None else x, good.y if y is None else y), good)


@pytest.mark.parametrize(
    ("labels", "value", "index"),
    [([0, 1, 10], 10, 2), ([0, 1, -1], -1, 2), ([0, -100, 1], -100, 1), ([-100] * 3, -100, 0)],
)
def test_a_label_out_of_range_is_named_with_its_index(labels, value, index):
    """Case J03."""
    with pytest.raises(DataError, match=rf"part val: label {value} at index {index} should be in 0\.\.9"):
        dataset(y=torch.tensor(labels))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"y": torch.zeros(3)}, "y is torch.float32"),
        ({"y": torch.zeros(2, dtype=torch.int64)}, r"y is torch.int64 \(2,\), should be torch.int64 \(3,\)"),
        ({"x": torch.zeros(3, 2).half()}, "x is torch.float16"),
        ({"x": torch.zeros(3, 3)}, r"x is torch.float32 \(3, 3\).*shape \(2,\)"),
        ({"x": torch.zeros(0, 2), "y": torch.zeros(0, dtype=torch.int64)}, "at least one sample"),
        ({"x": torch.tensor([[0, 0], [0, float("nan")], [0, 0]])}, "sample 1 holds nan"),
        ({"x": torch.tensor([[0, 0], [0, 0], [-float("inf"), 0]])}, "sample 2 holds -inf"),
    ],
)
def test_malformed_parts_are_refused(wrong, message):
    with pytest.raises(DataError, match=f"data set test, part val: .*{message}"):
        dataset(**wrong)


def test_to_another_precision_and_back():
    data = load(Digits())
    double = data.to("cpu", torch.float64)
    assert double.test.x.dtype == torch.float64
    assert double.to("cpu").hashes() == data.hashes()
    assert data.to("cpu") is data


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_debian
def test_debian_folder_works_as_it_is():
    before = snapshot(DEBIAN)
    assert [len(part) for part in FashionMnist(root=str(DEBIAN)).load().parts.values()] == [54_000, 6_000, 10_000]
    assert snapshot(DEBIAN) == before
    with pytest.raises(DataError, match=r"are those of FashionMNIST; set data\.root to MNIST's"):
        Mnist(root=str(DEBIAN)).load()


def test_layouts_are_equal_and_a_read_only_folder_is_left_alone(small, tmp_path):
    raw = tmp_path / "data" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for path in small.iterdir():
        (raw / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    small.chmod(0o555)
    before = snapshot(small)
    data = Mnist(root=str(small)).load()
    assert snapshot(small) == before
    small.chmod(0o755)
    assert [len(part) for part in data.parts.values()] == [45, 5, 20]
    assert Mnist(root=str(tmp_path / "data")).load().hashes() == data.hashes()


def test_default_root_is_where_the_program_was_started(small, tmp_path, monkeypatch):
    for name in ("a", "b"):
        write_idx(tmp_path / name / "data", seed=ord(name))
    hashes = []
    for name in ("a", "b"):
        monkeypatch.chdir(tmp_path / name)
        hashes.append(load(Mnist()).hashes()["test"])
    assert hashes[0] != hashes[1]


@pytest.mark.parametrize("name", ["train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"])
@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda packed: packed[: len(packed) // 2], "unreadable file .EOFError"),
        (lambda packed: b"", "an empty file"),
        (lambda packed: gzip.compress(b""), "an empty file"),
        (lambda packed: b"<html>403 Forbidden</html>", "unreadable file .BadGzipFile"),
        (lambda packed: packed[:40] + bytes([packed[40] ^ 255]) + packed[41:], "unreadable file"),
        (lambda packed: gzip.compress(gzip.decompress(packed)[:-9]), "unreadable file"),
        (lambda packed: gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 2, 3, 4])), r"(shape \(2,\)|unreadable file)"),
        (lambda packed: gzip.compress(bytes([0, 0, 9, 1, 0, 0, 0, 2, 3, 4])), "unreadable file .TypeError"),
    ],
)
def test_damaged_file(small, name, damage, found):
    path = small / name
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=f"{name} in {small} must hold shape .*found .*{found}.*data.download=true"):
        Mnist(root=str(small)).load()


def test_absent_file(small):
    (small / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(
        DataError, match=f"it needs the files .*; found .*in {small}: t10k-images.*data.download=true.*data.root"
    ):
        Mnist(root=str(small)).load()


def test_cifar10(tmp_path, monkeypatch):
    import hashlib
    import pickle

    from torchvision.datasets import CIFAR10

    folder = tmp_path / CIFAR10.base_folder
    folder.mkdir()
    sums, pixels = {}, torch.randint(0, 256, (20, 3072), dtype=torch.uint8)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta"]:
        content = {"data": pixels.numpy(), "labels": [1] * 20, "label_names": ["a"] * 10}
        (folder / name).write_bytes(pickle.dumps(content))
        sums[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()
    with pytest.raises(DataError, match=r"data_batch_1 \(wrong checksum\), .*unpack https.*data.root"):
        Cifar10(root=str(tmp_path)).load()
    monkeypatch.setattr(CIFAR10, "train_list", [[f"data_batch_{i}", sums[f"data_batch_{i}"]] for i in range(1, 6)])
    monkeypatch.setattr(CIFAR10, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setitem(CIFAR10.meta, "md5", sums["batches.meta"])
    with pytest.raises(DataError, match="holds 100 samples, not 50000"):
        Cifar10(root=str(tmp_path)).load()
    monkeypatch.setattr(cifar10, "COUNTS", {True: 100, False: 20})
    data = Cifar10(root=str(tmp_path)).load()
    assert [tuple(part.x.shape) for part in data.parts.values()] == [(90, 3, 32, 32), (10, 3, 32, 32), (20, 3, 32, 32)]
    channel = data.test.x[:, 2].flatten(1)
    assert torch.equal(channel.argsort(stable=True), pixels.view(20, 3, -1)[:, 2].argsort(stable=True))
    (folder / "test_batch").unlink()
    with pytest.raises(DataError, match=r"damaged: test_batch \(absent\)\. Set"):
        Cifar10(root=str(tmp_path)).load()


# --- downloads -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [Mnist, FashionMnist, Cifar10])
def test_a_download_that_fails_leaves_no_half_file_and_says_what_to_do(option, tmp_path, monkeypatch):
    """Case J01."""

    def half(url, root=None, download_root=None, **kwargs):
        Path(root or download_root, "train-images-idx3-ubyte").write_bytes(b"half")
        raise OSError("host down")

    import torchvision

    (tmp_path / ".hardgrad.staging").mkdir()  # left by a process that was killed
    for module in (torchvision.datasets.mnist, torchvision.datasets.cifar):
        monkeypatch.setattr(module, "download_and_extract_archive", half)
    with pytest.raises(
        DataError, match=rf"download of .*http.* into {tmp_path} failed \(OSError: host down\)\. Put.*data=digits"
    ):
        option(root=str(tmp_path), download=True).load()
    assert [path.name for path in tmp_path.rglob("*") if path.name != ".hardgrad.lock"] == []


def test_a_download_from_a_silent_host_ends(tmp_path, monkeypatch):
    """Case J01."""
    import torchvision

    with socket.create_server(("127.0.0.1", 0)) as silent:
        alarm = threading.Timer(10, silent.close)
        alarm.start()
        monkeypatch.setattr(torchvision.datasets.MNIST, "mirrors", [f"http://127.0.0.1:{silent.getsockname()[1]}/"])
        monkeypatch.setattr(files, "TIMEOUT", 0.2)
        monkeypatch.setenv("no_proxy", "*")
        with pytest.raises(DataError, match="timed out"):
            Mnist(root=str(tmp_path), download=True).load()
        alarm.cancel()
    assert socket.getdefaulttimeout() is None


def test_root_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match=r"into .*file/data failed \(NotADirectoryError"):
        Mnist(root=str(tmp_path / "file" / "data"), download=True).load()


@pytest.mark.nightly
def test_jobs_that_start_together_download_once(small, tmp_path):
    """Case J02."""
    gets = Counter()

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self):
            gets[self.path] += 1
            time.sleep(0.1)  # so that the jobs overlap
            super().do_GET()

        def log_message(self, *args):
            pass

    code = """if True:
        import sys, hashlib, pathlib, torchvision
        from experiments.data import idx, mnist
        url, source, root = sys.argv[1:]
        cls = torchvision.datasets.MNIST
        cls.mirrors = [url]
        md5 = lambda name: hashlib.md5(pathlib.Path(source, name).read_bytes()).hexdigest()
        cls.resources = [(name, md5(name)) for name, _ in cls.resources]
        idx.COUNTS = {"train": 50, "t10k": 20}
        print(mnist.Mnist(root, download=True).load().hashes()["train"])"""
    root = tmp_path / "data"
    raw = root / "MNIST" / "raw"  # a damaged file is fetched anew
    raw.mkdir(parents=True)
    (raw / "train-images-idx3-ubyte").write_bytes(b"damaged")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(small))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        jobs = [python(code, url, small, root) for _ in range(4)]
        hashes = {finish(job).strip() for job in jobs}
        server.shutdown()
    assert hashes == {Mnist(root=str(small)).load().hashes()["train"]}
    assert set(gets.values()) == {2}  # torchvision asks twice: for redirections, and for the file
    assert {path.name for path in root.iterdir()} == {"MNIST", ".hardgrad.lock"}


# --- batches ---------------------------------------------------------------------------------------------------------


def epoch_of(batches, epoch):
    steps = range(epoch * batches.per_epoch, (epoch + 1) * batches.per_epoch)
    return [batches[step] for step in steps]


@pytest.mark.parametrize(("n", "size"), [(1, 1), (5, 1), (8, 4), (10, 4), (9, 4), (5, 4), (4, 4), (1079, 64)])
def test_an_epoch_visits_every_sample_once(n, size):
    for epoch in (0, 3):
        batches = epoch_of(Batches(n, size, seed=0), epoch)
        assert torch.equal(torch.cat(batches), order(n, 0, epoch))
        assert torch.cat(batches).sort().values.tolist() == list(range(n))
        assert all(len(batch) == size for batch in batches[:-1])


def test_order_differs_between_epochs_and_seeds_and_repeats():
    """Cases I03, I01."""
    orders = [tuple(order(100, seed, epoch).tolist()) for seed in range(20) for epoch in range(20)]
    assert len(set(orders)) == 400
    assert orders[21] == tuple(order(100, 1, 1).tolist())
    position = torch.tensor(orders).argmin(1).float()  # where sample 0 comes is uniform
    assert abs(position.mean() - 49.5) < 5


def test_order_depends_on_nothing_else():
    """Case I02."""
    expected, state = order(1000, 3, 2), torch.get_rng_state()
    threads = torch.get_num_threads()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    try:
        assert torch.equal(order(1000, 3, 2), expected)
    finally:
        torch.set_num_threads(threads)
    torch.set_rng_state(state)
    order(1000, 3, 2)
    assert torch.equal(torch.get_rng_state(), state)
    assert order(10, 0, 0).tolist() == [8, 4, 2, 6, 9, 1, 5, 3, 7, 0]  # on torch 2.13 and 2.14


def test_a_step_needs_no_steps_before_it():
    whole = [batch for epoch in range(3) for batch in epoch_of(Batches(11, 3, seed=5), epoch)]
    resumed = Batches(11, 3, seed=5)
    assert all(torch.equal(resumed[step], whole[step]) for step in (7, 2, 11, 0))
    with pytest.raises(IndexError, match="step -1"):
        resumed[-1]


def test_a_last_batch_of_one_sample_is_merged_and_said():
    """Case J04."""
    batches = Batches(9, 4, seed=0)
    assert [len(batch) for batch in epoch_of(batches, 0)] == [4, 5]
    assert "9 samples in batches of 4" in batches.note
    assert Batches(10, 4, seed=0).note == Batches(3, 1, seed=0).note == ""
    part = Part(torch.randn(9, 2), torch.zeros(9, dtype=torch.int64))
    for step in range(4):
        nn.BatchNorm1d(2)(part.batch(batches[step])[0])


def test_a_batch_larger_than_the_training_part_is_refused():
    """Case J05."""
    with pytest.raises(ValueError, match="batch_size=8 is larger than the training part of 3 samples"):
        Batches(3, 8, seed=0)
    with pytest.raises(ValueError, match="batch_size=0 must be at least 1"):
        Batches(3, 0, seed=0)

from __future__ import annotations

from pathlib import Path

import pytest

from scotoma.datasets.image_decoding import available_memory

MEMINFO = "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 4000 kB\n"
HUGE = 9223372036854771712  # how version 1 says that there is no limit


def system(root: Path, groups: str, **files: str | int) -> Path:
    """A made-up system: what /proc says, and control files by path, slashes written as __."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(MEMINFO)
    (root / "proc/self/cgroup").write_text(groups)
    for name, content in files.items():
        path = root / "sys/fs/cgroup" / name.replace("__", "/").replace("--", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return root


def group(
    version: int, folder: str, limit: str | int, used: int, files: int
) -> dict[str, str | int]:
    names = {
        2: ("memory--max", "memory--current", "inactive_file"),
        1: ("memory--limit_in_bytes", "memory--usage_in_bytes", "total_inactive_file"),
    }[version]
    stat = f"anon 1\n{names[2]} {files}\nsock 0"
    before = folder.replace("/", "__")
    return {
        f"{before}{names[0]}": limit,
        f"{before}{names[1]}": used,
        f"{before}memory--stat": stat,
    }


def test_without_control_groups_the_machine_decides(tmp_path: Path) -> None:
    assert available_memory(system(tmp_path, "")) == 4000 * 1024


def test_a_limit_of_version_2_leaves_what_is_unused_and_file_pages(tmp_path: Path) -> None:
    files = group(2, "a/b/", 1_000_000, 700_000, 50_000)
    assert available_memory(system(tmp_path, "0::/a/b\n", **files)) == 350_000


def test_the_tightest_group_above_decides(tmp_path: Path) -> None:
    files = group(2, "a/b/", 1_000_000, 1_000, 0) | group(2, "a/", 2_000_000, 1_900_000, 7)
    assert available_memory(system(tmp_path, "0::/a/b\n", **files)) == 100_007


def test_no_limit_in_a_group_leaves_the_machine_s_memory(tmp_path: Path) -> None:
    files = group(2, "a/", "max", 700_000, 0)
    assert available_memory(system(tmp_path, "0::/a\n", **files)) == 4000 * 1024


def test_a_limit_of_version_1_counts(tmp_path: Path) -> None:
    groups = "9:cpu,memory:/docker/x\n8:pids:/other\n0::/\n"
    files = group(1, "memory/docker/x/", 900_000, 500_000, 30_000)
    files |= group(1, "memory/", HUGE, 5_000_000, 0)
    assert available_memory(system(tmp_path, groups, **files)) == 430_000


def test_inside_a_container_the_mounted_group_counts_whatever_its_name(tmp_path: Path) -> None:
    files = group(2, "", 800_000, 300_000, 0)
    assert available_memory(system(tmp_path, "0::/host/only\n", **files)) == 500_000


def test_a_group_beyond_its_limit_leaves_nothing_and_not_less(tmp_path: Path) -> None:
    files = group(2, "", 800_000, 900_000, 0)
    assert available_memory(system(tmp_path, "0::/\n", **files)) == 0


def test_a_system_that_tells_nothing_is_not_guessed_at(tmp_path: Path) -> None:
    assert available_memory(tmp_path) is None


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="tells nothing outside Linux")
def test_on_this_machine_it_is_something_and_no_more_than_there_is() -> None:
    found = available_memory()
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    assert found is not None
    assert 0 < found <= total

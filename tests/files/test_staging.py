"""Writing beside the target: the target's name belongs to complete results only."""

import os

import pytest

from molrec_convert.errors import UsageError
from molrec_convert.files.staging import Staging, check_apart, is_started, replacing, workroom


def fill(path, text):
    path.mkdir()
    (path / "zarr.json").write_text("{}")
    (path / "content").write_text(text)


def test_a_directory_takes_its_name_when_committed(tmp_path):
    with Staging(tmp_path / "run.mrec") as staging:
        staging.begin()
        fill(staging.path, "new")
        assert not (tmp_path / "run.mrec").exists()
        staging.commit()
        assert (tmp_path / "run.mrec/content").read_text() == "new"
        assert os.listdir(tmp_path) == ["run.mrec"]


def test_an_existing_target_is_refused_unless_asked(tmp_path):
    (tmp_path / "run.mrec").mkdir()
    with pytest.raises(UsageError, match=r"exists already: name another target, or replace it with --overwrite"):
        Staging(tmp_path / "run.mrec")


def test_an_old_directory_stays_until_the_new_one_takes_its_place(tmp_path):
    target = tmp_path / "run.mrec"
    fill(target, "old")
    with replacing(target, overwrite=True) as made:
        fill(made, "new")
        assert (target / "content").read_text() == "old"
    assert (target / "content").read_text() == "new"
    assert os.listdir(tmp_path) == ["run.mrec"]


@pytest.mark.parametrize("in_one_step", [True, False])
@pytest.mark.parametrize("old", ["directory", "file", "link", "nothing"])
@pytest.mark.parametrize("new_is_directory", [True, False])
def test_files_and_directories_replace_each_other(tmp_path, monkeypatch, old, new_is_directory, in_one_step):
    if not in_one_step:
        monkeypatch.setattr("molrec_convert.files.disk._renameat2", lambda: None)
    target = tmp_path / "t"
    if old == "directory":
        fill(target, "old")
    elif old == "file":
        target.write_text("old")
    elif old == "link":
        target.symlink_to("elsewhere")
    with replacing(target, overwrite=True) as made:
        fill(made, "new") if new_is_directory else made.write_text("new")
    assert (target / "content" if new_is_directory else target).read_text() == "new"
    assert os.listdir(tmp_path) == ["t"]


def test_after_an_error_the_target_is_as_it_was(tmp_path):
    target = tmp_path / "run.mrec"
    fill(target, "old")

    def fails():
        with replacing(target, overwrite=True) as made:
            fill(made, "half")
            workroom(made).mkdir()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert os.listdir(tmp_path) == ["run.mrec"]
    assert (target / "content").read_text() == "old"


def test_the_note_lies_beside_the_partial_result(tmp_path):
    with Staging(tmp_path / "run.mrec") as staging:
        assert not staging.started
        staging.begin({"frames": [1, 2]})
        (staging.path / "zarr.json").write_text("{}")
    assert sorted(os.listdir(tmp_path)) == [".run.mrec.partial", ".run.mrec.partial.json"]
    with Staging(tmp_path / "run.mrec") as again:
        assert again.started
        assert again.read_note() == {"frames": [1, 2]}
        again.note_path.write_text("{")
        assert again.read_note() == {}
        assert not again.started
        again.discard()
    assert not os.listdir(tmp_path)


def test_what_lies_there_but_is_not_what_the_note_was_written_for_is_not_gone_on_from(tmp_path):
    target = tmp_path / "run.mrec"
    fill(target, "old")
    with Staging(target, overwrite=True) as staging:
        staging.begin({"frames": 1})
        os.rename(staging.path, tmp_path / "mine")
        os.rename(target, staging.path)
        assert not staging.started
        assert not is_started(target)
        os.rename(staging.path, target)
        os.rename(tmp_path / "mine", staging.path)
        assert staging.started


def test_while_one_writes_another_is_refused(tmp_path):
    with Staging(tmp_path / "run.mrec") as staging:
        with pytest.raises(UsageError, match=r"run\.mrec is being written by this process already"):
            Staging(tmp_path / "run.mrec")
        staging.begin()
        staging.path.write_text("")
        staging.commit()
        Staging(tmp_path / "run.mrec", overwrite=True).release()


_LEFT = [
    f".a.{kind}"
    for kind in (
        "partial",
        "partial.json",
        "partial.room",
        "partial-journal",
        "partial-lock",
        "new",
        "replaced",
        "lock",
    )
]
_OTHERS = (".a.partially", ".a.partial.lock", ".a.partial.partial", ".b.partial", ".a.migration", ".a", "a.new")


@pytest.mark.parametrize("is_directory", [True, False])
def test_what_killed_runs_left_goes_with_the_next_one(tmp_path, is_directory):
    (tmp_path / "a").write_text("old")
    for name in (*_LEFT, *_OTHERS):
        fill(tmp_path / name, name) if is_directory and name != ".a.lock" else (tmp_path / name).write_text(name)
    Staging(tmp_path / "a", overwrite=True).release()
    assert sorted(os.listdir(tmp_path)) == sorted(["a", *_OTHERS, ".a.partial", ".a.partial.json"])
    with replacing(tmp_path / "a", overwrite=True) as made:
        made.write_text("new")
    assert sorted(os.listdir(tmp_path)) == sorted(["a", *_OTHERS])
    assert (tmp_path / "a").read_text() == "new"


def test_a_target_that_lost_its_name_between_two_renames_gets_it_back(tmp_path):
    fill(tmp_path / ".run.mrec.replaced", "old")
    fill(tmp_path / ".run.mrec.new", "new")
    with pytest.raises(UsageError, match="exists already"):
        Staging(tmp_path / "run.mrec")
    assert (tmp_path / "run.mrec/content").read_text() == "old"
    Staging(tmp_path / "run.mrec", overwrite=True).release()
    assert os.listdir(tmp_path) == ["run.mrec"]


def test_devices_and_names_without_room_for_more_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe is a device or a pipe, which is not replaced: name another target"):
        Staging(tmp_path / "pipe", overwrite=True)
    for name in ("/dev/null", "/dev/stdout", "/dev/a.mrec", "/dev/fd/1", "/proc/self/fd/1"):
        with pytest.raises(UsageError, match=f"{name} is a device or a pipe, which is not replaced"):
            Staging(name, overwrite=True)
    with pytest.raises(UsageError, match="the name has 240 bytes, and the hidden names beside it leave room for 238"):
        Staging(tmp_path / ("a" * 240))
    with replacing(tmp_path / ("a" * 238)) as made:
        made.write_text("")


def test_a_target_without_a_folder_is_refused(tmp_path):
    with pytest.raises(UsageError, match="there is no directory"):
        Staging(tmp_path / "nowhere" / "run.mrec")


def test_a_directory_with_anything_but_a_record_is_never_replaced(tmp_path):
    target = tmp_path / "home"
    target.mkdir()
    Staging(target, overwrite=True).release()
    (target / "thesis.txt").write_text("mine")
    for name in (target, target / "sub" / ".."):
        with pytest.raises(UsageError, match="is a directory that holds no record, so it is not replaced"):
            Staging(name, overwrite=True)
    (tmp_path / "link").symlink_to(target)
    Staging(tmp_path / "link", overwrite=True).release()


def test_a_target_that_holds_a_source_is_refused(tmp_path):
    source = tmp_path / "run" / "a.dump"
    source.parent.mkdir()
    source.write_text("")
    (tmp_path / "link").symlink_to(source)
    for target in (source, source.parent, tmp_path):
        with pytest.raises(UsageError, match="name another target"):
            check_apart(target, [source])
    with pytest.raises(UsageError, match="is the source"):
        check_apart(tmp_path / "link", [tmp_path / "link"])
    check_apart(tmp_path / "run" / "a.mrec", [source, source.parent])
    check_apart(tmp_path / "link", [source])


def test_an_interrupt_when_the_new_one_stands_changes_nothing(tmp_path, monkeypatch):
    from molrec_convert.files import disk

    target = tmp_path / "run.mrec"
    fill(target, "old")
    remove, interrupted = disk.remove, []

    def interrupt(path):
        if os.path.isdir(path) and target.exists() and (target / "content").read_text() == "new" and not interrupted:
            interrupted.append(path)
            raise KeyboardInterrupt
        remove(path)

    monkeypatch.setattr(disk, "remove", interrupt)
    with replacing(target, overwrite=True) as made:
        fill(made, "new")
    assert interrupted
    assert os.listdir(tmp_path) == ["run.mrec"]

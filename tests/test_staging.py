"""Writing beside the target: the target's name belongs to complete results only."""

import os

import pytest

from molrec_convert.errors import UsageError
from molrec_convert.locking import PathLock
from molrec_convert.staging import Staging, check_apart, exchange


def fill(path, text):
    path.mkdir()
    (path / "zarr.json").write_text("{}")
    (path / "content").write_text(text)


def test_a_directory_takes_its_name_when_committed(tmp_path):
    staging = Staging(tmp_path / "run.mrec")
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
    staging = Staging(target, overwrite=True)
    fill(staging.path, "new")
    assert (target / "content").read_text() == "old"
    staging.commit()
    assert (target / "content").read_text() == "new"
    assert os.listdir(tmp_path) == ["run.mrec"]


@pytest.mark.parametrize("old_is_directory", [True, False])
@pytest.mark.parametrize("new_is_directory", [True, False])
def test_files_and_directories_replace_each_other(tmp_path, old_is_directory, new_is_directory):
    target = tmp_path / "t"
    fill(target, "old") if old_is_directory else target.write_text("old")
    staging = Staging(target, overwrite=True)
    fill(staging.path, "new") if new_is_directory else staging.path.write_text("new")
    staging.commit()
    assert (target / "content" if new_is_directory else target).read_text() == "new"
    assert os.listdir(tmp_path) == ["t"]


def test_discard_leaves_the_target_alone(tmp_path):
    target = tmp_path / "run.mrec"
    fill(target, "old")
    staging = Staging(target, overwrite=True)
    fill(staging.path, "half")
    staging.write_note({"a": 1})
    staging.discard()
    assert os.listdir(tmp_path) == ["run.mrec"]
    assert (target / "content").read_text() == "old"


def test_the_note_lies_beside_the_partial_result(tmp_path):
    staging = Staging(tmp_path / "run.mrec")
    assert not staging.started
    fill(staging.path, "half")
    staging.write_note({"frames": [1, 2]})
    again = Staging(tmp_path / "run.mrec")
    assert again.started
    assert again.read_note() == {"frames": [1, 2]}
    assert sorted(os.listdir(tmp_path)) == [".run.mrec.partial", ".run.mrec.partial.json"]
    again.note_path.write_text("{")
    assert again.read_note() == {}


def test_a_target_that_another_writes_is_left_to_it(tmp_path):
    staging = Staging(tmp_path / "run.mrec")
    staging.check_free()
    fill(staging.path, "half")
    staging.check_free()
    lock = PathLock(staging.path)
    with pytest.raises(UsageError, match=r"another conversion is writing .*run\.mrec"):
        staging.check_free()
    lock.release()
    staging.check_free()


def test_a_target_without_a_folder_is_refused(tmp_path):
    with pytest.raises(UsageError, match="there is no directory"):
        Staging(tmp_path / "nowhere" / "run.mrec")


def test_a_directory_with_anything_but_a_record_is_never_replaced(tmp_path):
    target = tmp_path / "home"
    target.mkdir()
    Staging(target, overwrite=True)
    (target / "thesis.txt").write_text("mine")
    for name in (target, target / "sub" / ".."):
        with pytest.raises(UsageError, match="is a directory that holds no record, and is not replaced"):
            Staging(name, overwrite=True)
    (tmp_path / "link").symlink_to(target)
    Staging(tmp_path / "link", overwrite=True)


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


@pytest.mark.parametrize("in_one_step", [True, False])
def test_two_names_are_exchanged(tmp_path, monkeypatch, in_one_step):
    if not in_one_step:
        monkeypatch.setattr("molrec_convert.disk._renameat2", lambda: None)
    fill(tmp_path / "a", "a")
    fill(tmp_path / "b", "b")
    exchange(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a/content").read_text() == "b"
    assert (tmp_path / "b/content").read_text() == "a"
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]

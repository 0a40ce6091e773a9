"""``verify``: every rule has its code, an archive that breaks one rule gets that code and no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from archivefs.errors import LimitExceeded
from archivefs.format import Level, Opening, VerifyRequest
from archivefs.formats.labrador import FORMAT
from tests.formats.labrador.opening import error_codes, findings, notices
from tests.samples.labrador import SITE, Member, bad_archives, base, damaged, digest_of, head, pack, with_keys, write

CODES = {
    "zip-unreadable zip-corrupt zip-unsupported zip-duplicate-member zip-unsafe-path",
    "missing-file file-order mimetype-value mimetype-compressed kv-syntax extmime-key extmime-duplicate-key",
    "key-strictname key-bitsy key-dot-name key-directory-index key-too-long key-normalize digest-format",
    "file-uniqueness directory-uniqueness decoded-collision",
    "www-missing www-unlisted www-extra-directory stored-empty stored-secondary digest-mismatch",
}
ALL_CODES = {code for line in CODES for code in line.split()}
BAD = list(bad_archives())


def test_there_is_a_bad_archive_for_every_code() -> None:
    assert {code for code, _, _ in BAD} == ALL_CODES


@pytest.mark.parametrize(("code", "data"), [pytest.param(c, d, id=f"{c} {w!a}") for c, w, d in BAD])
def test_a_bad_archive_breaks_its_rule_and_no_other(tmp_path: Path, code: str, data: bytes) -> None:
    path = tmp_path / "bad.lbz"
    path.write_bytes(data)
    found = findings(path)
    assert error_codes(found) == {code}
    assert all(finding.message for finding in found)


def test_a_good_archive_has_no_findings(tmp_path: Path) -> None:
    assert findings(write(tmp_path / "good.lbz", SITE)) == []


def test_an_empty_site_has_no_findings(tmp_path: Path) -> None:
    assert findings(write(tmp_path / "empty.lbz", {})) == []


def check(tmp_path: Path, members: list[Member], **how: bool) -> tuple[set[str], list[tuple[str, str]]]:
    path = tmp_path / "archive.lbz"
    path.write_bytes(pack(members))
    found = findings(path, **how)
    return error_codes(found), notices(found)


# -- several things at once --


def test_a_directory_called_index_beside_an_index_document_breaks_two_rules(tmp_path: Path) -> None:
    codes, _ = check(tmp_path, with_keys({"index.html": b"1", "Index.d/x": b"2"}))
    assert codes == {"key-directory-index", "directory-uniqueness"}


def test_an_escaped_index_beside_a_real_one_is_legal(tmp_path: Path) -> None:
    assert check(tmp_path, with_keys({"d/index.html": b"1", "d/xq--index-x.html": b"2"})) == (set(), [])


def test_a_name_no_encoder_writes_is_a_notice(tmp_path: Path) -> None:
    codes, noticed = check(tmp_path, with_keys({"xz---gq/a": b"1", "xz---gq/b": b"2", "xq--foo-x": b"3"}))
    assert codes == set()
    assert noticed == [("noncanonical-name", "manifest line 1"), ("noncanonical-name", "manifest line 3")]


def test_members_beside_the_site_are_a_notice(tmp_path: Path) -> None:
    codes, noticed = check(tmp_path, [*with_keys(base()), Member("LICENSE", b"x"), Member("docs/", b"")])
    assert codes == set()
    assert noticed == [("extra-member", "LICENSE"), ("extra-member", "docs/")]


def test_a_record_without_content_is_a_notice_unless_all_is_demanded(tmp_path: Path) -> None:
    members = with_keys(base(), absent={"gone": b"gone", "empty": b"", "copy": b"one\n"})
    codes, noticed = check(tmp_path, members)
    assert codes == {"stored-secondary"}  # "copy" is the better key, so a/one.txt should not be stored
    assert noticed == [("external", "gone")]
    codes, noticed = check(tmp_path, members, complete=True)
    assert codes == {"stored-secondary", "external"}
    assert noticed == []


def test_what_others_supply_is_not_missing(tmp_path: Path) -> None:
    other = write(tmp_path / "other.lbz", {"/x": b"gone"})
    path = write(tmp_path / "a.lbz", {"/y": b"gone", "/z": b"here"}, external=["/y"])
    assert error_codes(findings(path, complete=True)) == {"external"}
    assert findings(path, complete=True, externals=[other]) == []


def test_a_member_that_cannot_be_read_has_no_digest(tmp_path: Path) -> None:
    path = tmp_path / "a.lbz"
    path.write_bytes(damaged(pack(with_keys({"b.txt": b"some text\n" * 10})), "www/b.txt"))
    assert [finding.code for finding in findings(path)] == ["zip-corrupt"]


def test_of_equal_members_only_the_first_is_looked_at(tmp_path: Path) -> None:
    codes, _ = check(tmp_path, [*with_keys(base()), Member("www/A/one.txt", b"of another digest")])
    assert codes == {"zip-duplicate-member"}


def test_an_unreadable_manifest_is_all_that_is_said_of_the_records(tmp_path: Path) -> None:
    path = tmp_path / "a.lbz"
    path.write_bytes(damaged(pack(with_keys(base())), "manifest"))
    assert [(finding.code, finding.where) for finding in findings(path)] == [("zip-corrupt", "manifest")]


def test_the_content_of_an_unlisted_member_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "a.lbz"
    path.write_bytes(damaged(pack([*with_keys(base()), Member("www/stray", b"x" * 99)]), "www/stray"))
    assert error_codes(findings(path)) == {"www-unlisted", "zip-corrupt"}


def test_an_empty_digest_with_content_is_wrong_twice(tmp_path: Path) -> None:
    codes, _ = check(tmp_path, [*head(f"a {digest_of(b'')}\n"), Member("www/a", b"not empty")])
    assert codes == {"stored-empty", "digest-mismatch"}


def test_a_zip_without_anything_misses_everything(tmp_path: Path) -> None:
    codes, _ = check(tmp_path, [])
    assert codes == {"missing-file", "www-missing"}


# -- where, how many, how long --


def test_findings_say_where(tmp_path: Path) -> None:
    lines = f"a {digest_of(b'a')[:-1]}\n\n b- {digest_of(b'b')} \r\nlonely\n"
    path = tmp_path / "a.lbz"
    path.write_bytes(pack([*head(lines), Member("www/a", b"a")]))
    said = {finding.code: f"{finding.where}: {finding.message}" for finding in findings(path)}
    assert said["digest-format"] == "manifest line 1: digest has 63 characters, expected 64"
    assert said["key-strictname"] == "manifest line 3: b- is not a StrictName"
    assert said["kv-syntax"] == "manifest line 4: is no record: 'lonely'"


@pytest.mark.parametrize("jobs", [0, 1, 5])
def test_any_number_of_threads_finds_the_same(tmp_path: Path, jobs: int) -> None:
    members = with_keys({f"d/{number}": b"%d" % number for number in range(250)})
    members = [Member(m.name, b"wrong", m.method) if m.name.endswith("7") else m for m in members]
    path = tmp_path / "a.lbz"
    path.write_bytes(pack(members))
    found = findings(path, jobs=jobs)
    assert {finding.code for finding in found} == {"digest-mismatch"}
    assert [finding.where for finding in found] == [f"www/d/{number}" for number in range(250) if number % 10 == 7]


def test_progress_is_told_in_bytes_and_reaches_the_end(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    path = write(tmp_path / "a.lbz", SITE)
    assert FORMAT.verify is not None
    list(FORMAT.verify(str(path), Opening(), VerifyRequest(progress=lambda done, total: told.append((done, total)))))
    assert told[0][0] == 0
    assert told[-1][0] == told[-1][1] == told[0][1] > 0
    assert sorted(told) == told


def test_verify_can_be_given_up(tmp_path: Path) -> None:
    path = tmp_path / "a.lbz"
    path.write_bytes(pack([*with_keys(base()), Member("extra", b"x"), *(Member(f"www/{n}", b"x") for n in range(500))]))
    assert FORMAT.verify is not None
    found = iter(FORMAT.verify(str(path), Opening(), VerifyRequest()))
    assert next(found).level is Level.NOTICE
    found.close()  # type: ignore[attr-defined]


def test_texts_that_are_too_large_are_refused(tmp_path: Path) -> None:
    members = with_keys(base())
    members[1] = Member("extmime", b"\n" * (17 << 20))
    path = tmp_path / "a.lbz"
    path.write_bytes(pack(members))
    with pytest.raises(LimitExceeded):
        findings(path)

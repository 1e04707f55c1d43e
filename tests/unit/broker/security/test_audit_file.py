"""The audit log's file."""

from goqueue.broker.security.audit_file import AuditFile
from goqueue.runtime import real_environment


def test_a_full_file_is_numbered_and_the_oldest_goes(tmp_path) -> None:
    disk = real_environment(16).disk
    path = tmp_path / "audit" / "audit.jsonl"
    file = AuditFile(disk, str(path), bytes_max=10, files_max=3)
    for number in range(6):
        file.append(b'{"n":%d}\n{}\n' % number)
    disk.close()
    assert sorted(each.name for each in path.parent.iterdir()) == [
        "audit.jsonl",
        "audit.jsonl.1",
        "audit.jsonl.2",
    ]
    assert path.read_text() == '{"n":5}\n{}\n'
    assert (path.parent / "audit.jsonl.2").read_text() == '{"n":3}\n{}\n'

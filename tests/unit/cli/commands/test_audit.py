"""`goqueue audit`: what was refused and changed is found again."""

import msgspec
import pytest

from goqueue.api.audit import AuditEventBody, AuditList
from goqueue.cli.commands import audit
from tests.unit.cli.invocation import facts, run


@pytest.mark.usefixtures("guarded")
def test_refusals_and_changes_are_found():
    facts("topic", "create", "audited")
    run("topic", "list", env={"GOQUEUE_USER": "mallory", "GOQUEUE_PASSWORD": "guess"}, code=6)
    found, changes = [], []
    for _ in range(200):
        found = facts("audit", "--principal", "mallory", "--denied")
        changes = facts("audit", "--kind", "change", "--since", "-1h", "-n", "5000")
        if found and any("audited" in each["details"] for each in changes):
            break
    assert (found[0]["kind"], found[0]["operation"]) == ("authentication", "BASIC")
    assert any(each["request"] == "POST /topics" for each in changes)
    assert "mallory" in run("audit", "--denied", "-o", "table", code=0).stdout
    run("audit", "--follow", "--until", "2026-01-01", code=2)


def test_following_prints_each_event_once_and_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    texts = {name: name for name in ("principal", "host", "listener", "request", "operation")}
    texts |= {"reason": "no", "result": "", "details": ""}
    fields = {"offset": 7, "time": "t", "node": 1, "kind": "authorization", "count": 0, **texts}
    event = msgspec.convert({**fields, "allowed": False, "resource": "topic:t"}, AuditEventBody)
    asked: list[int | None] = []

    class Client:
        def search_audit(self, offset: int | None = None, **_: object) -> AuditList:
            asked.append(offset)
            if len(asked) == 3:
                raise KeyboardInterrupt
            return AuditList([event] if len(asked) == 1 else [], 8, True)

    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        audit.audit(Client(), audit.Wanted(), follow=True)  # type: ignore[arg-type]
    assert asked == [None, 8, 8]
    assert capsys.readouterr().out.count("topic:t") == 1

"""`goqueue schedule`: create, list, show, change, run, preview and delete."""

import pytest

from tests.unit.cli.invocation import facts, run

CREATE = ("schedule", "create", "report", "-t", "reports", "-m", "run {{run}}")


@pytest.mark.usefixtures("server")
def test_a_schedule_is_created_changed_run_and_deleted():
    run("topic", "create", "reports", code=0)
    created = facts(*CREATE, "--cron", "0 9 * * MON-FRI", "--timezone", "Asia/Karachi", "-k", "a")
    assert (created["status"], created["timezone"]) == ("active", "Asia/Karachi")
    assert facts("schedule", "pause", "report")["status"] == "paused"
    done = facts("schedule", "run", "report")
    assert (done["run"]["number"], done["run"]["topic"]) == (1, "reports")
    (listed,) = facts("schedule", "runs", "report")
    assert listed["offset"] == 0
    changed = facts("schedule", "update", "report", "--missed", "all", "-H", "h=1", "--max-runs", 5)
    assert (changed["missed"], changed["max_runs"], changed["version"]) == ("all", 5, 2)
    assert (changed["cron"], changed["message"]["key"]) == ("0 9 * * MON-FRI", "a")
    assert changed["message"]["headers"] == [{"name": "h", "value": "1"}]
    again = facts(
        "schedule", "update", "report", "--every", "15m", "-m", "now", "--priority", "low"
    )
    assert (again["cron"], again["every_ms"], again["timezone"]) == (None, 900_000, "UTC")
    assert again["message"]["value"] == "now"
    assert {"name": "gq-priority", "value": "low"} in again["message"]["headers"]
    assert facts("schedule", "resume", "report")["status"] == "active"
    assert [each["name"] for each in facts("schedule", "list")] == ["report"]
    assert facts("schedule", "show", "report")["runs"] == 1
    assert len(facts("schedule", "preview", "report", "-n", 3)["runs"]) == 3
    assert facts("schedule", "delete", "report", "--force") == {"deleted": "report"}
    assert facts("schedule", "list") == []


@pytest.mark.usefixtures("server")
def test_people_get_tables():
    run("topic", "create", "others", code=0)
    create = ("schedule", "create", "report", "-t", "others", "-m", "run {{run}}")
    run(*create, "--every", "1h", code=0)
    table = run("schedule", "list", "-o", "table", code=0).stdout
    assert "Every 1h" in table
    assert "active" in table
    shown = run("schedule", "show", "report", "-o", "table", code=0).stdout
    assert "run {{run}}" in shown
    run("schedule", "run", "report", "-o", "table", code=0)
    assert "others" in run("schedule", "runs", "report", "-o", "table", code=0).stdout
    run("schedule", "delete", "report", "--force", code=0)


@pytest.mark.usefixtures("server")
def test_what_is_wrong_is_said():
    assert "--topic and --message" in run("schedule", "create", "x", code=2).stderr
    assert "name of a schedule" in run("schedule", "preview", code=2).stderr
    run("schedule", "show", "nothing", code=4)
    wrong = run("schedule", "preview", "--cron", "0 9 * *", "--timezone", "Asia/Lahore", code=2)
    assert "has 4 fields" in wrong.stderr
    assert "Asia/Karachi" in wrong.stderr


@pytest.mark.usefixtures("server")
def test_an_expression_is_previewed():
    found = facts("schedule", "preview", "--cron", "@daily", "--timezone", "Asia/Tokyo", "-n", 2)
    assert all(each["local"].endswith("T00:00:00+09:00") for each in found["runs"])

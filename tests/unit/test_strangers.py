"""The outcome of each test is read from what the other projects' runners write."""

from strangers import franz_go, kafka_python, librdkafka
from strangers.suite import Outcome, Result

GO_OUTPUT = """=== RUN   TestGroupSimple
=== RUN   TestGroupSimple/classic
--- FAIL: TestGroupSimple (30.01s)
    --- FAIL: TestGroupSimple/classic (30.00s)
        group_test.go:40: UNKNOWN_MEMBER_ID
--- PASS: TestClient (0.02s)
--- SKIP: TestScram (0.00s)
FAIL
"""

PYTEST_REPORT = """<testsuites><testsuite>
<testcase name="test_group" time="7.03"/>
<testcase name="test_elect_leaders" time="0.4"><failure message="unknown&#10;more"/></testcase>
<testcase name="test_ssl" time="0"><error message="no such folder"/></testcase>
<testcase name="test_admin[PLAIN]" time="0"><skipped message="external broker"/></testcase>
</testsuite></testsuites>"""


def test_go_tests_are_counted_once_each():
    assert franz_go.results(GO_OUTPUT) == [
        Result("TestGroupSimple", Outcome.FAILED, 30.01),
        Result("TestClient", Outcome.PASSED, 0.02),
        Result("TestScram", Outcome.SKIPPED, 0.0),
    ]


def test_a_run_that_was_cut_off_is_told():
    (result,) = franz_go.results("panic: test timed out after 50m0s\n")
    assert result.outcome is Outcome.TIMED_OUT


def test_pytest_failures_and_errors_are_failures(tmp_path):
    summary = tmp_path / "report.xml"
    summary.write_text(PYTEST_REPORT)
    assert list(kafka_python.results(summary)) == [
        Result("test_group", Outcome.PASSED, 7.03),
        Result("test_elect_leaders", Outcome.FAILED, 0.4, "unknown"),
        Result("test_ssl", Outcome.FAILED, 0.0, "no such folder"),
        Result("test_admin[PLAIN]", Outcome.SKIPPED, 0.0, "external broker"),
    ]


def test_librdkafka_says_where_a_test_failed():
    summary = {
        "tests": {
            "0001_multiobj": {"state": "SKIPPED", "duration": 0, "extra": ""},
            "0011_produce_batch": {"state": "FAILED", "duration": 3.4, "extra": ""},
        }
    }
    output = (
        '### Test "0011" failed at 0011-produce_batch.c:718:f() at Sun: ###\nassertion failed\n'
    )
    (result,) = librdkafka.results(summary, "0011", output)
    assert result == Result(
        "0011_produce_batch",
        Outcome.FAILED,
        3.4,
        "0011-produce_batch.c:718:f() assertion failed",
    )


def test_an_expected_failure_is_told_apart(tmp_path):
    suite = librdkafka.Librdkafka(tmp_path)
    expected = suite.judge(Result("0081_admin", Outcome.FAILED))
    assert expected.outcome is Outcome.KNOWN
    assert expected.note
    assert suite.judge(Result("0081_admin", Outcome.PASSED)).outcome is Outcome.PASSED
    assert suite.judge(Result("0011_produce_batch", Outcome.FAILED)).outcome is Outcome.FAILED

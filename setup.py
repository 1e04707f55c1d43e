"""Compiles the hot modules at install; everything else about the package is in pyproject.toml.

The hot modules are ordinary Python, run as they are when they are not compiled.  Cython in
pure-Python mode compiles the same `.py` file, with C types from the `.pxd` beside it if there is
one.  The wheel carries the `.py` and the extension; Python imports the extension first.

No compiler, no Cython, a failing compile: each means an interpreted install, said aloud.
`GOQUEUE_COMPILE=0` asks for one.
"""

import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

HOT_MODULES = [
    "goqueue.model.bodies",
    "goqueue.model.murmur",
    "goqueue.model.records",
    "goqueue.spark.columns.onepass",
    "goqueue.spark.values.avro_scan",
]

ROOT = Path(__file__).parent
COMPILE_ARGS = ["-O3"]


class OptionalBuildExt(build_ext):
    """Leaves out an extension that does not compile: its `.py` file does the same work."""

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:  # compiler, linker and platform fail in classes of their own
            say(f"{ext.name} stays interpreted: {error}")

    def copy_extensions_to_source(self) -> None:
        """Nothing: a compiled copy beside a file that is edited goes stale unseen."""


def extensions() -> list[Extension]:
    """What to compile here; empty, with the reason said, when nothing can be."""
    if os.environ.get("GOQUEUE_COMPILE", "1") == "0":
        say("everything stays interpreted: GOQUEUE_COMPILE=0")
        return []
    compiler = c_compiler()
    if shutil.which(compiler) is None:
        say(f"everything stays interpreted: no C compiler (looked for {compiler!r})")
        return []
    try:
        from Cython.Build import cythonize
        from Cython.Compiler.Errors import CompileError
    except ImportError as error:
        say(f"everything stays interpreted: {error}")
        return []
    found = []
    for module in HOT_MODULES:
        try:
            found += cythonize(
                [extension(module)],
                build_dir="build/cython",
                compiler_directives={"language_level": 3, "embedsignature": True},
                quiet=True,
            )
        except CompileError as error:
            say(f"{module} stays interpreted: Cython refused {error}")
    return found


def extension(module: str) -> Extension:
    source = Path("src", *module.split(".")).with_suffix(".py")
    assert (ROOT / source).exists(), f"{source} is in HOT_MODULES and not in the tree"
    return Extension(module, [str(source)], extra_compile_args=COMPILE_ARGS, optional=True)


def c_compiler() -> str:
    """The command that distutils will run."""
    command = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return shlex.split(command)[0]


def say(text: str) -> None:
    print(f"goqueue: {text}", file=sys.stderr, flush=True)


setup(ext_modules=extensions(), cmdclass={"build_ext": OptionalBuildExt})

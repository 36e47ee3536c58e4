"""The library, and how it is loaded."""

import subprocess


def test_import_loads_nothing(child):
    child("""
        import os, pinion
        loader = pinion.DataLoader("nothing")
        assert "libpinion" not in open("/proc/self/maps").read()
    """)


def test_another_abi(child, tmp_path):
    source = tmp_path / "other.c"
    source.write_text("int pinion_abi(void) { return 99; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "other.so", source], check=True)
    out = child(
        """
        import pinion
        try: len(pinion.DataLoader("nothing"))
        except ImportError as e: print(e)
        """,
        env={"PINION_LIBRARY": str(tmp_path / "other.so")},
    )
    assert "its ABI is 99" in out and "install pinion again" in out and len(out.strip().splitlines()) == 1


def test_no_library(child):
    out = child(
        """
        import pinion
        try: len(pinion.DataLoader("nothing"))
        except ImportError as e: print(e)
        """,
        env={"PINION_LIBRARY": "/nowhere.so"},
    )
    assert "cannot be loaded" in out

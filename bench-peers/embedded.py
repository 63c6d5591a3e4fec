"""The benchmark `uuid` on embedded stores: each in a process of its own, one after another, on the same folder."""

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

import install

HERE = Path(__file__).resolve().parent
RUST = ["rocksdb", "rocksdb_transactions", "lmdb", "redb", "surrealkv", "sqlite"]
JAVA = ["rocksdbjni", "xodus"]
OURS = {"isomer": "contract", "isomer_bucket": "bucket"}
SYSTEMS = [*OURS, *RUST, *JAVA]
LIBCLANG = "libclang==18.1.1"


def java(work):
    """The archives and our compiled program."""
    libraries, classes = work / "uuid-java" / "lib", work / "uuid-java" / "classes"
    if not libraries.exists():
        pom = HERE / "java" / "uuid.xml"
        install.step("mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={libraries}.part")
        os.rename(f"{libraries}.part", libraries)
    path = ":".join(sorted(glob.glob(f"{libraries}/*.jar")))
    compiler = glob.glob(f"{libraries}/ecj-*.jar")[0]
    install.step("java", "-jar", compiler, "-17", "-nowarn", "-cp", path, "-d", classes, HERE / "java" / "src" / "uuid" / "Uuid.java")
    return ["java", "-Xms1g", "-Xmx1g", *install.OPENED, "-cp", f"{classes}:{path}", "uuid.Uuid"]


def rocksdb(work):
    """The folder with RocksDB's library, out of its Java archive: building it would take an hour."""
    folder = work / "rocksdb"
    if not (folder / "librocksdb.so").exists():
        java(work)
        folder.mkdir(exist_ok=True)
        archive = glob.glob(f"{work}/uuid-java/lib/rocksdbjni-*.jar")[0]
        install.step(sys.executable, "-m", "zipfile", "-e", archive, folder)
        os.rename(folder / "librocksdbjni-linux64.so", folder / "librocksdb.so")
    return folder


def rust(work):
    """Our compiled program, and what it needs to run."""
    library = rocksdb(work)
    clang = glob.glob(f"{work}/venv/lib/python*/site-packages/clang/native")
    if not clang:
        install.step(install.python(work), "-m", "pip", "install", "--quiet", "--no-input", LIBCLANG)
        clang = glob.glob(f"{work}/venv/lib/python*/site-packages/clang/native")
    headers = subprocess.run(["cc", "-print-file-name=include"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    environment = {
        **os.environ,
        "ROCKSDB_LIB_DIR": str(library),
        "LIBCLANG_PATH": clang[0],
        "BINDGEN_EXTRA_CLANG_ARGS": f"-I{headers}",
        "LD_LIBRARY_PATH": str(library),
    }
    target = work / "uuid"
    install.step("cargo", "build", "--quiet", "--release", "--locked", "--target-dir", target, cwd=HERE / "uuid", env=environment)
    return [target / "release" / "uuid-peers"], environment


def commands(chosen, work, binary, folder, given):
    """The command of each system, and its environment; those that cannot be had are named and left out."""
    found = {}
    ready = {}
    pairs = max(1000, int(1e7 * given.scale)) // 1000 * 1000
    for name in chosen:
        try:
            if name in OURS:
                command = [binary, "bench", "uuid", "--scale", given.scale, "--layer", OURS[name], "--folder", folder]
                if given.engine:
                    command += ["--engine", given.engine]
                found[name] = (command, None)
            elif name in RUST:
                start, environment = ready.setdefault("rust", None) or rust(work)
                ready["rust"] = (start, environment)
                found[name] = ([*start, name, folder, "--scale", given.scale, "--limit", given.limit], environment)
            else:
                ready["java"] = ready.get("java") or java(work)
                found[name] = ([*ready["java"], name, folder, pairs, given.limit], None)
        except (OSError, subprocess.CalledProcessError, install.Missing) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return found


def run(chosen, work, binary, given):
    """Runs each system `--rounds` times, in turn."""
    folder = work / "uuid-run"
    found = commands(chosen, work, binary, folder, given)
    for _ in range(given.rounds):
        for name, (command, environment) in found.items():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            # Each checks for itself what it needs; the Java programs do not, and SQLite's and LMDB's files are the largest.
            needed = int(given.scale * 1e7) * 72 * 6 + (1 << 30)
            if shutil.disk_usage(folder).free < needed:
                print(f"{name} is left out: {needed / 2**30:.1f} GiB of disk are needed on the way", file=sys.stderr)
                continue
            process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, env=environment)
            for line in process.stdout:
                # Ours says no system, and names what goes through a bucket differently.
                if '"system"' not in line:
                    line = line.replace("{", f'{{"system":"{name}",', 1).replace('"case":"bucket_', '"case":"')
                print(line, end="", flush=True)
            if process.wait():
                print(f"{name} ended with {process.returncode}", file=sys.stderr)
            shutil.rmtree(folder, ignore_errors=True)

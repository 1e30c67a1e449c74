"""kube-apiserver, kube-scheduler and kubelet 1.20.2, built from Debian's source package.

The sources come from the archive that this machine's own `deb` lines name, and go with the compiled
packages into build/kubernetes, which git ignores; the three programs stay in build/kubernetes/bin.
It takes some six minutes of CPU, once. Needs Debian 12's golang-1.19-go and dpkg-dev.

usage: build_kubernetes.py [--keep]    --keep leaves the sources and compiled packages there
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "build" / "kubernetes"
BINARIES, WORK = FOLDER / "bin", FOLDER / "work"
SOURCES = WORK / "gopath" / "src" / "k8s.io" / "kubernetes"
PROGRAMS = ("kube-apiserver", "kube-scheduler", "kubelet")
VERSION = ("v1.20.2", "1", "20")
GO = Path("/usr/lib/go-1.19/bin")
SUITE = "bookworm"
MARK = re.compile(r"^// \+k8s:openapi-gen=true", re.MULTILINE)
PACKAGE_PLACES = ("pkg", "staging/src/k8s.io")
OPENAPI = "k8s.io/kubernetes/pkg/generated/openapi"


def main():
    if all((BINARIES / name).exists() for name in PROGRAMS):
        print(f"{BINARIES} has {', '.join(PROGRAMS)}")
        return
    if not GO.exists():
        sys.exit("there is no Go 1.19: apt-get install golang-1.19-go dpkg-dev")
    began_s = time.monotonic()
    if not SOURCES.exists():
        fetch()
    generate()
    build()
    if "--keep" not in sys.argv:
        shutil.rmtree(WORK)
    print(f"built {', '.join(PROGRAMS)} in {time.monotonic() - began_s:.0f} s: {BINARIES}")


def fetch():
    """Fetch and unpack the source package."""
    parts, lists = WORK / "parts", WORK / "lists"
    for folder in (parts, lists / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    (parts / "sources.sources").write_text(source_lines())
    options = [
        *("-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={parts}"),
        *("-o", f"Dir::State::lists={lists}", "-o", "APT::Sandbox::User=root"),
    ]
    for command in (["update"], ["source", "kubernetes"]):
        run("apt-get", "-qq", *options, *command, cwd=WORK)
    (unpacked,) = (path for path in WORK.glob("kubernetes-*") if path.is_dir())
    SOURCES.parent.mkdir(parents=True, exist_ok=True)
    unpacked.rename(SOURCES)


def source_lines():
    """This machine's archives of Debian, with their sources instead of their packages."""
    stanzas = []
    for path in sorted(Path("/etc/apt/sources.list.d").glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text()):
            fields = dict(re.findall(r"^([A-Za-z-]+):\s*(.*)$", stanza, re.MULTILINE))
            words = {name: fields.get(name, "").split() for name in ("Types", "Suites")}
            if "deb" in words["Types"] and SUITE in words["Suites"]:
                stanzas.append(re.sub(r"(?m)^Types:.*$", "Types: deb-src", stanza).strip())
    lists = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*.list")]
    for path in (path for path in lists if path.exists()):
        for line in path.read_text().splitlines():
            parsed = re.match(r"deb\s+(?:\[(.*?)\]\s+)?(\S+)\s+(\S+)\s+(.*)$", line.strip())
            if parsed and parsed[3] == SUITE:
                stanza = f"Types: deb-src\nURIs: {parsed[2]}\nSuites: {SUITE}\n"
                signed = re.search(r"signed-by=(\S+)", parsed[1] or "")
                signature = f"\nSigned-By: {signed[1]}" if signed else ""
                stanzas.append(f"{stanza}Components: {parsed[4]}{signature}")
    if not stanzas:
        sys.exit(f"/etc/apt has no line `deb` for {SUITE}: this needs Debian 12")
    return "\n\n".join(stanzas) + "\n"


def generate():
    """Write the API's OpenAPI definitions, which the source package is without."""
    generator = WORK / "openapi-gen"
    go("build", "-o", generator, "./vendor/k8s.io/kube-openapi/cmd/openapi-gen")
    packages = sorted({import_path(path.parent) for path in marked_files()})
    run(
        generator,
        *("-i", ",".join(packages), "-p", OPENAPI, "-O", "zz_generated.openapi"),
        *("-h", "hack/boilerplate/boilerplate.generatego.txt", "-r", WORK / "violations.txt"),
        cwd=SOURCES,
        env=go_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def marked_files():
    """Files of packages that have OpenAPI definitions."""
    for place in PACKAGE_PLACES:
        for path in (SOURCES / place).rglob("*.go"):
            if not path.name.endswith("_test.go") and MARK.search(path.read_text()):
                yield path


def import_path(folder):
    """The name by which other packages import the package in `folder`."""
    inside = folder.relative_to(SOURCES).as_posix()
    vendored = inside.replace("staging/src/k8s.io/", "vendor/k8s.io/")
    return f"k8s.io/kubernetes/{vendored}"


def build():
    """Compile the programs."""
    flags = ["-s", "-w"]
    for package in ("component-base/version", "client-go/pkg/version"):
        name = f"k8s.io/kubernetes/vendor/k8s.io/{package}"
        for field, value in zip(("gitVersion", "gitMajor", "gitMinor"), VERSION, strict=True):
            flags += ["-X", f"{name}.{field}={value}"]
    made = WORK / "made"
    made.mkdir(exist_ok=True)
    go("build", "-ldflags", " ".join(flags), "-o", f"{made}/", *(f"./cmd/{n}" for n in PROGRAMS))
    BINARIES.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        (made / name).rename(BINARIES / name)


def go_environment():
    return {
        **os.environ,
        "GO111MODULE": "off",
        "GOPATH": str(WORK / "gopath"),
        "GOCACHE": str(WORK / "cache"),
        "GOFLAGS": "",
        "CGO_ENABLED": "0",
        "PATH": f"{GO}:{os.environ['PATH']}",
    }


def go(*words):
    run("go", *words, cwd=SOURCES, env=go_environment())


def run(*words, **settings):
    """Run a command, at a priority that leaves the machine to others."""
    subprocess.run(["nice", *map(str, words)], check=True, **settings)


if __name__ == "__main__":
    main()

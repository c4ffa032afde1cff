#!/usr/bin/env bash
# How `fusiondoc parse` ends where something goes wrong around it: one line a case, its exit status and first
# line. `PYTHON=python bash benchmarks/ends.sh [FOLDER]`, in FOLDER (a checkout; by default this one).
set -u
here=$(cd "${1:-$(dirname "$0")/..}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONPATH=$here TMPDIR=$work FUSIONDOC_CAPTURES=$work/captures
cd "$work" || exit 1
log=$here/fixtures/logs/nvfuser-2.1.2-ordered-layer-norm.log.xz
fusiondoc() { "${PYTHON:-python}" -m fusiondoc "$@"; }
shown() { printf '%-46s status %-4s %s\n' "$1" "$2" "$(head -n 1 "$work/err" 2>/dev/null | cut -c1-100)"; }
case_of() { # NAME COMMAND: the status of a command of the shell
    eval "$2" >"$work/out" 2>"$work/err" </dev/null
    shown "$1" "$?"
}
digits=$(printf '9%.0s' $(seq 5000))
line() { printf 'kernel1 run in %s ms, achieved: %s GB/s\n' "$1" "$2"; }
graph() { # DEVICE LAYER
    printf 'graph(%%x : Float(8, strides=[1], device=cuda:%s)):\n' "$1"
    printf '  %%2 : Float(8, strides=[1], device=cuda:%s) = prim::CudaFusionGroup_0(%%x)\n  return (%%2)\n' "$1"
    printf 'with prim::CudaFusionGroup_0 = graph(%%x : Float(8, strides=[1], device=cuda:%s)):\n' "$1"
    printf '  %%3 : Float(8, strides=[1], device=cuda:%s) = aten::relu(%%x), scope: N::/B::l.%s # m.py:1:2\n' "$1" "$2"
    printf '  return (%%3)\n'
}
{ line 1e200 1e200; line 1e200 1e200; } >launches.log
{ graph "$digits" 0; graph 0 0; } >device.log
{ graph 0 "$digits"; graph 0 0; } >layer.log
case_of 'two launches of 1e200 ms at 1e200 GB/s' 'fusiondoc parse launches.log'
case_of 'a device of 5,000 digits' 'fusiondoc parse device.log'
case_of 'a layer of 5,000 digits' 'fusiondoc parse layer.log'
case_of 'explain with 5,000 digits' 'fusiondoc explain $digits'

follows() { # NAME WHAT: the log becomes WHAT while it is followed
    rm -rf train.log && xz -dc "$here/fixtures/logs/nnc-2.11-add-relu.log.xz" >train.log
    "${PYTHON:-python}" -m fusiondoc parse --follow train.log --idle 20 >"$work/out" 2>"$work/err" &
    local process=$!
    for _ in $(seq 100); do grep -q group "$work/err" && break; sleep 0.1; done
    rm train.log && eval "$2"
    wait $process
    local status=$?
    grep -E '^error|Following' "$work/err" >"$work/last" && mv "$work/last" "$work/err"
    shown "--follow: $1, $(wc -l <"$work/out") lines of report" $status
}
follows 'a folder' 'mkdir train.log'
follows 'a device' 'ln -s /dev/zero train.log'
follows 'a socket' '"${PYTHON:-python}" -c "import socket; socket.socket(socket.AF_UNIX).bind(\"train.log\")"'
xz -dc "$here/fixtures/logs/nnc-2.11-add-relu.log.xz" >plain.log
case_of '--idle nan (10 s at most)' 'timeout -s KILL 10 "${PYTHON:-python}" -m fusiondoc parse --follow plain.log --idle nan'
printf '[tool.fusiondoc.parse]\nfollow = true\n' >pyproject.toml
case_of 'follow in pyproject.toml (10 s at most)' 'timeout -s KILL 10 "${PYTHON:-python}" -m fusiondoc parse plain.log'
rm pyproject.toml

case_of '2>/dev/full' 'fusiondoc parse none.log 2>/dev/full'
case_of '2> a reader that went away' 'fusiondoc parse none.log 2> >(exec 0<&-)'
case_of '>&-' 'fusiondoc parse $log >&-'
yes 'graph(%a : Float(8, strides=[1])): x' | head -n 3000000 >large.log
case_of 'no memory (ulimit -v 60000)' '(ulimit -v 60000; fusiondoc parse large.log)'

"${PYTHON:-python}" - "$here" <<'PYTHON_CODE'
import io, os, pathlib, sys, tarfile
source = pathlib.Path(sys.argv[1], "fixtures/captures/nvfuser-2.1.2-composite")
with tarfile.open("large.tar.xz", "w:xz", format=tarfile.USTAR_FORMAT, preset=0) as tar:
    for file in sorted(source.iterdir()):
        if file.is_file():
            data = file.read_bytes()
            if file.name == "log":
                data = b"".join(data.replace(b"%", b"%%%d_" % number) for number in range(1 + (40 << 20) // len(data)))
            entry = tarfile.TarInfo("large/" + file.name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
PYTHON_CODE
"${PYTHON:-python}" -m fusiondoc parse large.tar.xz >"$work/out" 2>"$work/err" &
process=$!
until ls -d "$work"/fusiondoc-*/large >/dev/null 2>&1; do sleep 0.01; done
sleep 0.3
kill -TERM $process
wait $process
status=$?
shown "SIGTERM while an archive is read, left: $(ls -d "$work"/fusiondoc-*/ 2>/dev/null | wc -l)" $status

# SPDX-License-Identifier: PolyForm-Noncommercial-1.0.0
# shellcheck shell=bash
# What the scripts share. Source it; it defines ROOT and changes into it. CALLER is where one was.

set -euo pipefail

SELF=$(realpath -- "$0")
# shellcheck disable=SC2034  # for those that take paths of the caller
CALLER=$PWD
ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
cd "$ROOT"
export ROOT
VENV=$ROOT/.venv
# One job a core: a compiler of this code needs about 1 GiB, which every supported machine has.
JOBS=$(nproc)
export VENV JOBS
# Lets ccache serve a clone in another folder with what this one has compiled.
export CCACHE_BASEDIR=$ROOT CCACHE_NOHASHDIR=1

say() { printf '%s\n' "$*" >&2; }

die() {
  say "$(basename -- "$0"): $*"
  exit 1
}

# need_value OPTION [VALUE]: refuses an option that lacks its value.
need_value() {
  if [ -z "${2:-}" ]; then die "$1 needs a value; see --help"; fi
}

# usage: the caller's comment block at the top of its file, as help.
usage() { awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$SELF"; }

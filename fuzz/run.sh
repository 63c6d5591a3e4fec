#!/bin/sh
# Runs one fuzz target on a stable toolchain: ./run.sh TARGET [SECONDS]
set -eu
cd "$(dirname "$0")"
target=${1:?give a target: $(ls fuzz_targets | sed 's/\.rs$//' | tr '\n' ' ')}
seconds=${2:-60}
case $target in
    lsm_*) features=lsm ;;
    websocket) features=server ;;
    parse | query) features=language ;;
    *) features=value ;;
esac
host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing" \
    cargo build --release --target "$host" --no-default-features --features "$features" \
    --bin "$target"
mkdir -p "corpus-run/$target" "artifacts/$target" "corpus/$target"
exec "target/$host/release/$target" "corpus-run/$target" "corpus/$target" \
    -max_total_time="$seconds" -timeout=5 -rss_limit_mb=512 -artifact_prefix="artifacts/$target/"

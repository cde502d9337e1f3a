#!/bin/sh
# Runs measure.sh on a phone over adb, without root, and fetches the results. Options are those of measure.sh.
set -u

fail() {
    echo "android.sh: $1" >&2
    exit 1
}

cd "$(dirname "$0")" || exit 1
adb=${ADB:-adb}
target=/data/local/tmp/latcast
command -v "$adb" > /dev/null || fail "adb is not installed; it is part of the Android SDK Platform-Tools"
[ "$("$adb" get-state 2> /dev/null)" = device ] || fail 'no phone answers: connect one with USB debugging on, and allow it there'
[ -n "$(ls tools 2> /dev/null)" ] || fail 'put the tools for Android (arm64) into the folder tools; README.md says where they come from'

model=$("$adb" shell getprop ro.product.model < /dev/null | tr -d '\r' | tr ' /' '--')
"$adb" shell "mkdir -p $target/results" < /dev/null || fail "cannot write to $target on the phone"
for part in networks tools networks.txt precision.txt measure.sh; do
    "$adb" push "$part" "$target/" > /dev/null < /dev/null || fail "cannot copy $part to the phone"
done

# Each option is quoted for the phone's shell.
options=''
named=0
for option in "$@"; do
    [ "$option" = --device ] && named=1
    options="$options '$(printf '%s\n' "$option" | sed "s/'/'\\\\''/g")'"
done
[ "$named" = 1 ] || options="--device '$model' $options"
"$adb" shell "cd $target && chmod 755 tools/* && sh measure.sh $options" < /dev/null
status=$?
"$adb" pull "$target/results" . > /dev/null < /dev/null || fail 'cannot fetch the results from the phone'
echo "fetched into results"
exit $status

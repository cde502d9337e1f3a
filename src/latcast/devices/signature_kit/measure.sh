#!/bin/sh
# Times the networks of this kit with the runtimes' own benchmark tools and keeps what they print.
# Needs nothing but a POSIX shell. What has been measured is not measured again; --again does.
set -u

usage() {
    cat <<'END'
sh measure.sh --device NAME [OPTIONS]

  --device NAME           what this device is called, such as rpi5
  --threads N             threads of one inference [1]
  --gpu                   on the GPU instead of the CPU
  --tools DIR             where the tools are [tools, then the PATH]
  --only TOOL             benchmark_model, benchncnn, benchmark_app or onnxruntime_perf_test
  --tflite VERSION        version of TFLite, which benchmark_model does not print
  --ncnn VERSION          version of ncnn
  --onnxruntime VERSION   version of ONNX Runtime
  --unit UNIT             name of the cores, such as 2large, where --cpus picks them
  --cpus MASK             cores to run on, as taskset takes them: f0
  --rounds N              times over, each in a process of its own [3]
  --runs N                timed runs in each [50]
  --pause SECONDS         rest before each network, so that the device stays cool [3]
  --profile               also times the operators (benchmark_model)
  --again                 measures again what is there
END
}

fail() {
    echo "measure.sh: $1" >&2
    exit 1
}

cd "$(dirname "$0")" || exit 1
device='' threads=1 gpu=0 tools=tools only='' tflite='' ncnn='' onnxruntime='' unit='' cpus='' rounds=3 runs=50 pause=3 profile=0
again=0
while [ $# -gt 0 ]; do
    case $1 in
        --gpu) gpu=1 ;;
        --profile) profile=1 ;;
        --again) again=1 ;;
        -h | --help) usage; exit 0 ;;
        --device | --threads | --tools | --only | --tflite | --ncnn | --onnxruntime | --unit | --cpus | --rounds | --runs | --pause)
            [ $# -ge 2 ] || fail "$1 wants a value; sh measure.sh --help shows how"
            eval "${1#--}=\$2"
            shift
            ;;
        *) fail "unknown option $1; sh measure.sh --help shows all" ;;
    esac
    shift
done
[ -n "$device" ] || fail "name this device with --device, such as --device rpi5"
for value in "$threads" "$rounds" "$runs" "$pause"; do
    case $value in '' | *[!0-9]*) fail "'$value' is no number" ;; esac
done

# Words of the line that goes before each output cannot hold blanks.
device=$(printf '%s\n' "$device" | tr ' /' '--')
case $cpus in *[!0-9a-fA-Fx]*) fail "'$cpus' is no mask of cores, such as f0" ;; esac
read -r precision < precision.txt || fail 'precision.txt is not there; copy the whole kit'
place=cpu$threads
[ "$gpu" = 1 ] && place=gpu
[ -n "$unit" ] && place=$unit
on_cores=''
[ -n "$cpus" ] && on_cores="taskset $cpus"

tool() { # the path of a tool, or nothing
    if [ -n "$only" ] && [ "$only" != "$1" ]; then return; fi
    if [ -x "$tools/$1" ]; then
        case $tools in /*) echo "$tools/$1" ;; *) echo "./$tools/$1" ;; esac
    else
        command -v "$1"
    fi
}

# What the driver calls the GPU, where the system tells it.
gpu_name=$( (dumpsys SurfaceFlinger | grep -m 1 GLES: || cat /sys/class/kgsl/kgsl-3d0/gpu_model) 2> /dev/null |
    sed 's/.*GLES: *//' | tr ' /' '__' | head -n 1)

announce() { # network version
    echo "# latcast network=$1 device=$device threads=$threads precision=$precision unit=$place version=$2 cpus=$cpus" \
        "gpu=$gpu_name abi=$(uname -m) system=$(uname -s)-$(uname -r) taken_at=$(date -u +%Y-%m-%dT%H:%M:%SZ)"
}

missed=0
measured=0
take() { # tool, network, round, version, command...
    name=$1 network=$2 result=results/$device-$place/$1/$2.$3.txt version=$4
    shift 4
    if [ -s "$result" ] && [ "$again" = 0 ]; then return; fi
    mkdir -p "${result%/*}"
    sleep "$pause"
    announce "$network" "$version" > "$result.part"
    # shellcheck disable=SC2086
    if $on_cores "$@" >> "$result.part" 2>&1 < /dev/null; then
        mv "$result.part" "$result"
        measured=$((measured + 1))
        echo "$name $network: done"
    else
        mv "$result.part" "${result%.txt}.failed"
        missed=$((missed + 1))
        echo "measure.sh: $name failed on $network; it said: $(tail -n 1 "${result%.txt}.failed")" >&2
    fi
}

# What a tool is told in several words stands unquoted on purpose.
# shellcheck disable=SC2086
run_network() { # network, ncnn's shape, round
    model=networks/$1
    found=$(tool benchmark_model)
    if [ -n "$found" ] && [ -f "$model.tflite" ]; then
        options="--num_threads=$threads --num_runs=$runs"
        [ "$gpu" = 1 ] && options="$options --use_gpu=true"
        take benchmark_model "$1" "$3" "$tflite" "$found" --graph="$model.tflite" $options
        if [ "$profile" = 1 ]; then
            take benchmark_model "$1" "$3.profile" "$tflite" "$found" --graph="$model.tflite" $options --enable_op_profiling=true
        fi
    fi
    found=$(tool benchncnn)
    if [ -n "$found" ] && [ -f "$model.ncnn.param" ]; then
        # Loops, threads, which cores, GPU, ten seconds to cool down.
        take benchncnn "$1" "$3" "$ncnn" "$found" "$runs" "$threads" 0 "$((gpu - 1))" 0 "param=$model.ncnn.param" "shape=$2"
    fi
    found=$(tool benchmark_app)
    if [ -n "$found" ] && [ -f "$model.onnx" ]; then
        options="-d CPU -nthreads $threads -infer_precision f32"
        [ "$gpu" = 1 ] && options='-d GPU'
        take benchmark_app "$1" "$3" '' "$found" -m "$model.onnx" $options -hint none -nstreams 1 -nireq 1 -api sync -niter "$runs"
    fi
    found=$(tool onnxruntime_perf_test)
    if [ -n "$found" ] && [ -f "$model.onnx" ] && [ "$gpu" = 0 ]; then
        take onnxruntime_perf_test "$1" "$3" "$onnxruntime" "$found" -I -s -m times -r "$runs" -x "$threads" "$model.onnx"
    fi
}

tools_found=''
for name in benchmark_model benchncnn benchmark_app onnxruntime_perf_test; do
    [ -n "$(tool $name)" ] && tools_found="$tools_found $name"
done
[ -n "$tools_found" ] || fail "found none of the tools in $tools or on the PATH; README.md says where they come from"
echo "on $device, $place:$tools_found"

round=1
while [ "$round" -le "$rounds" ]; do
    while read -r network shape; do
        run_network "$network" "$shape" "$round"
    done < networks.txt
    round=$((round + 1))
done
echo "$measured measured, $missed failed; results are in results/$device-$place"
echo 'With them in this folder where latcast is installed, add the device there:'
name=$(echo "$device" | tr 'A-Z' 'a-z')
for tool in $tools_found; do
    case $tool in
        benchmark_model) runtime=tflite-${tflite:-unstated} ;;
        benchncnn) runtime=ncnn-${ncnn:-unstated} ;;
        benchmark_app)
            # The tool prints its version: Build ... 2026.4.1-12345-abc
            said=$(cat "results/$device-$place/benchmark_app/"*.txt 2> /dev/null | sed -n 's/.*Build \.* \([0-9]*\.[0-9]*\)\..*/\1/p' | head -n 1)
            runtime=openvino-${said:-unstated}
            ;;
        *) runtime=onnxruntime-${onnxruntime:-unstated} ;;
    esac
    echo "    latcast device add $name --unit $place --runtime $runtime --precision $precision --measured . -o $name.zip"
done
[ "$missed" = 0 ]

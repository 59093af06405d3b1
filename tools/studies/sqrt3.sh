#!/bin/sh
# The ratio of gradient to quantisation noise in each third of the training, beside the effect of 4 bits there.
set -eu
/usr/bin/python3 tools/studies/sqrt3.py "$1"

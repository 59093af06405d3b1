#!/bin/sh
# As design_space.sh: the same runs judged by a second chip's costs.
exec "$(dirname "$0")/design_space.sh" "$1"

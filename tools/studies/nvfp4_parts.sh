#!/bin/sh
# The language model of nvfp4_parts, at one learning rate. 25 minutes on an idle core.
#   tools/studies/nvfp4_parts.sh results/nvfp4_parts
exec "$(dirname "$0")/lm_beside.sh" nvfp4_parts "$1"

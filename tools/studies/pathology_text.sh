#!/bin/sh
# The screening as a map: what Dgrad and Wgrad cost beside bf16 in every cell.
#   tools/studies/pathology_text.sh results/pathology_text
set -eu
cells=train.batch,train.steps,task.lm.outliers.token,train.lr
build/fp4sim effects build/studies/pathology_text --axis recipe --against bf16 --by "$cells" --csv "$1/map.csv" --force

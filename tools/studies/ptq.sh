#!/bin/sh
# The language model of ptq has fewer seeds and evaluations and reads the text of tools/corpus.sh. Half an hour on 2 busy
# cores.
#   tools/studies/ptq.sh results/ptq
exec "$(dirname "$0")/lm_beside.sh" ptq "$1" effects.md

#!/bin/bash
source ./lib.sh
# Goes.
function go() {
  help "$1"
  x=$(make a)
}
help() { echo "$1" | grep x; }
readonly K=1
export V=2

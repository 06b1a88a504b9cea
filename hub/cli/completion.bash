# hubd completion for bash: add  source <(hubd completion bash)  to ~/.bashrc
_hubd() {
    local found; mapfile -t found < <("$1" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    COMPREPLY=("${found[@]%%$'\t'*}")
    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace
}
complete -o default -F _hubd hubd

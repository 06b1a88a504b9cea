# hubd completion for zsh: add  source <(hubd completion zsh)  to ~/.zshrc, below compinit
_hubd() {
    local line; local -a found end
    for line in "${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ $line == *=$'\t'* ]] && end=(-S '')
        [[ -n $line ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    (( $#found )) && _describe hubd found "${end[@]}" || _files
}
compdef _hubd hubd

# hubd completion for fish: hubd completion fish >~/.config/fish/completions/hubd.fish
function __hubd_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] __complete $words[2..-1] 2>/dev/null; or true
end
complete -c hubd -f -a '(__hubd_complete)'
complete -c hubd -F -n 'test -z "$(__hubd_complete)"'

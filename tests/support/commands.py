"""Commands for the comparison of bash on the target with the shim here. Each gives the same every time it is run."""

from __future__ import annotations

QUOTING = r"""
echo hi
echo "double" 'single' mixed"quo"'ted'
echo 'it'\''s'
echo "a \"b\" \$c \`d\` \\ e"
echo $'tab\there' $'nl\nthere' $'\x41\u00e9'
printf '%s|' a 'b c' '' "d  e"; echo
printf '%q ' 'a b' "c'd" 'e"f' $'g\nh'; echo
echo "$(echo "nested $(echo "deeper")")"
echo `echo back \`echo tick\``
echo a\ b\ \ c
echo "trailing backslash in quotes \\"
echo 'backslash before quote \'
echo \'single\' \"double\"
echo "!history! !!"
echo {a,b{1..3},c}
echo {1..10..3} {z..w}
echo ~ | grep -c /
echo "~" '~'
echo ${HOME:0:1}
x='a b'; echo $x "$x" '$x'
x="a'b"; printf '<%s>' "$x"
echo "a
b"
echo 'a
b'
echo a#b #comment
echo "#not a comment"
echo $((1+2)) "$((3 * (4+5)))" $[6/2]
echo "$@" $# "${0##*/}"
echo "${x:-default}" "${x:=set}" "$x" "${x:+other}"
echo 'ünïcödé ✓ 日本語 🙂'
printf '\101\x42\u00e9\n'
echo -e 'a\tb\\c\0101'
echo -n no newline
echo -n
echo ''
printf ''
echo "$'not ansi'"
echo '$(not run)' "\$(not run)"
echo "percent %s %d %%"
echo a; echo b;
echo a & wait
echo a  ;  echo    b
IFS=:; x=a:b:c; echo $x; set -- $x; echo $#
a=(1 '2 3' 4); echo "${a[1]}" "${#a[@]}" "${a[*]}"
declare -A m=([k]=v ['x y']=z); echo "${m[x y]}" "${m[k]}"
printf -v y '%03d' 7; echo $y
read -r a b <<< "one two three"; echo "$a|$b"
echo ${#BASH_VERSION} | grep -c '[0-9]'
s=hello; echo ${s^} ${s^^} ${s/l/L} ${s//l/L} ${s#he} ${s%lo} ${s:1:3}
echo "${s@Q}"; s="a'b"; echo "${s@Q}"
echo \
continued
echo a \
 b
"""

CONTROL = r"""
if true; then echo yes; else echo no; fi
if false; then echo yes; elif true; then echo elif; fi
for i in 1 2 3; do echo $i; done
for ((i=0; i<3; i++)); do printf '%d ' $i; done
while read -r l; do echo "[$l]"; done < <(printf 'a\nb\n')
until [ -e done ]; do touch done; echo once; done
case abc in a*) echo A;; *) echo other;; esac
case x in y) ;; x) echo x ;& z) echo fall ;; esac
select_me() { echo "fn $1"; }; select_me arg
f() { return 7; }; f; echo $?
f() { local v=inner; echo $v; }; v=outer; f; echo $v
( echo sub; exit 3 ); echo $?
{ echo group; } ; echo after
true && echo and || echo or
false && echo and || echo or
! true; echo $?
! false; echo $?
[[ abc == a* ]] && echo glob
[[ abc =~ ^a(.)c$ ]] && echo "${BASH_REMATCH[1]}"
[ -z "" ] && echo empty
test 1 -lt 2; echo $?
let 'a=5' 'b=a*2'; echo $b
break; echo still
continue 2>/dev/null; echo still
for i in a b; do for j in c d; do [ $j = d ] && continue 2; echo $i$j; done; done
while :; do break; done; echo out
TIMEFORMAT='took no time'; time true
eval 'echo evaluated'; eval "x=1; echo \$x"
x='echo hi; echo there'; eval $x
set -- a b c; shift; echo $1 $#
set -- -n x; echo "$1" "$2"
getopts ab: o -a; echo $o
trap 'echo bye' EXIT; echo hi
trap 'echo got' USR1; kill -USR1 $$; echo after
trap 'echo err $?' ERR; false; echo done
trap 'echo dbg' DEBUG; true; trap - DEBUG
trap '' TERM; kill -TERM $$; echo survived
trap 'echo exit $?; exit 9' EXIT; exit 4
trap 'echo a' EXIT; (trap 'echo b' EXIT; echo in); echo out
coproc cat; echo x >&${COPROC[1]}; read -r l <&${COPROC[0]}; echo $l; exec {COPROC[1]}>&-; wait
mapfile -t m < <(seq 3); echo "${m[@]}"
exec 3<>file; echo data >&3; exec 3>&-; cat file
exec 3<>/dev/null; echo ok; exec 3>&-
exec >out.txt; echo into file
exec 2>err.txt; echo error >&2; ls /nonexistent
exec echo replaced
exec true; echo never
(exec echo in subshell); echo after
alias ll='echo aliased'; ll 2>&1 | sed 's/^.*line/line/'
shopt -s expand_aliases
shopt -q extglob; echo $?
shopt -s extglob; echo ok
shopt nullglob dotglob promptvars
source /dev/stdin <<< 'echo sourced'
. <(echo 'echo from procsub')
type echo cd if
command -v ls cd
hash -r; echo $?
umask; umask 027; umask; touch f; stat -c %a f
ulimit -n 64; ulimit -n
ulimit -c 0; ulimit -c
ulimit -v unlimited; ulimit -f 100; ulimit -f
times >/dev/null; echo $?
cd /; pwd; cd - ; pwd
mkdir d; cd d; pwd | sed 's,.*/,,'; echo $OLDPWD | sed 's,.*/,,'
pushd / >/dev/null; dirs | wc -w; popd >/dev/null
mkdir 'sp ace' "quo'te" -- -dash; ls -b
"""

BASHISMS = r"""
echo $0
echo "$BASH_EXECUTION_STRING" | wc -l
[ $$ = $BASHPID ] && echo same; (echo $BASHPID | grep -vc "^$$\$")
echo $PPID | grep -c '^[0-9]*$'
echo $- | tr -d '\n' | wc -c
echo $-
echo $SHLVL | grep -c .
echo $LINENO; echo $LINENO
echo $LINENO
echo $_
echo "${BASH_SOURCE[0]}" "${FUNCNAME[0]}"
echo $BASH_SUBSHELL; (echo $BASH_SUBSHELL)
echo ${BASH##*/}
echo $OSTYPE $MACHTYPE
echo $UID $EUID $(id -u)
echo $RANDOM | grep -c .
echo $SECONDS | grep -c '^[01]$'
echo "${PIPESTATUS[@]}"; true | false | true; echo "${PIPESTATUS[@]}"
set -e; false; echo never
set -e; false || true; echo reached
set -e; (false); echo never
set -e; f() { false; echo in; }; f; echo never
set -u; echo $undefined; echo never
set -u; echo "${undefined:-ok}"
set -o pipefail; false | true; echo $?
set -x; echo traced; set +x; echo untraced
set -x; true
set -v; echo verbose
set -f; echo *; set +f
set -n; echo never
set -C; echo a > f; echo b > f; echo $?; cat f
set -o noclobber; echo x > new; cat new
set -a; x=exported; env | grep -c '^x=exported'
set -o posix; echo posix
set -b; set -h; set -k; echo $-
set -T -E; echo $-
set -m; sleep 0 & wait; echo $?
set -- ; echo $#
set -o | grep -c on
shopt | wc -l
jobs; sleep 0 & jobs | wc -l; wait; jobs
sleep 0 & p=$!; wait $p; echo $?
(exit 5) & wait $!; echo $?
wait; echo $?
wait 99999999 2>/dev/null; echo $?
sleep 5 & kill $!; wait $! 2>/dev/null; echo $?
{ sleep 0; echo late; } & wait; echo done
disown -a; echo $?
declare -p BASH_VERSINFO | grep -c readonly
declare -i n=5+5; echo $n
readonly r=1; r=2; echo $?
unset HOME; echo "[$HOME]"
export FOO=bar; bash -c 'echo $FOO'
FOO=temp env | grep ^FOO; echo "[$FOO]"
f() { echo exported; }; export -f f; bash -c f
bash -c 'echo $0 $1' zero one
bash -c 'exit 42'; echo $?
sh -c 'echo $0'
bash -lc 'echo login' 2>/dev/null
printf '%(%Y)T\n' 0
printf '%s\n' {a..e} | paste -sd+
help true | head -1
enable -n echo; type -t echo
compgen -A function | wc -l
compgen -v | grep -c __reach
env | cut -d= -f1 | grep -vc _reach >/dev/null; env | grep -ci reach
env | sort | grep -v -e ^_= -e ^SSH_ -e ^SHLVL
ls /proc/self/fd | wc -l
readlink /proc/self/fd/0
[ -t 0 ]; echo $?; [ -t 1 ]; echo $?; [ -t 2 ]; echo $?
[ -p /dev/stdout ] && echo pipe; [ -p /dev/stdin ] || echo no pipe
echo into > /dev/stdout; echo err > /dev/stderr
echo x | cat /dev/stdin
cat /dev/fd/3 3<<< three
ps -o pgid= -p $$ | tr -d ' ' | grep -c "^$$\$"
ps -o sid= -p $$ | tr -d ' ' | grep -c "^$$\$"
ps -o stat= -p $$ | cut -c1-2
ps -o tty= -p $$
history | wc -l
fc -l 2>&1 | wc -l
bind -l 2>&1 | wc -l
logout; echo $?
return 3; echo $?
suspend; echo $?
"""

TEXT = (
    "cat <<'E'\nliteral $x `y`\nE",
    "cat <<'E'\nlast thing\nE\n",
    "cat <<E\n$((1+1)) $HOME/.\nE",
    "cat <<-E\n\tindented\n\t\ttwice\n\tE",
    "cat <<A; cat <<B\na\nA\nb\nB",
    "cat <<'E' > x\nhi\nE",
    "cat <<'E' > x\nhi\nE\ncat x",
    "cat <<'END' | tr a-z A-Z\nshout\nEND",
    "cat <<E\nunterminated",
    "cat <<\\E\n\\$x \\\\ \\\nE",
    "cat <<''\nempty delimiter\n\necho after",
    "cat <<'E O F'\nspaces\nE O F",
    "cat <<<'here string'",
    "cat <<<\"a\nb\"",
    "python3 - <<'E'\nprint('from a heredoc')\nE",
    "bash <<'E'\necho inner; exit 3\nE\necho $?",
    "echo hi # note",
    "echo hi # it's a note with a quote",
    "# only a comment",
    "# a comment\necho after",
    "echo a;\n\n\necho b",
    "\n\necho leading newlines",
    "   echo leading spaces",
    "echo trailing spaces   ",
    "echo trailing newline\n",
    "\techo tab",
    "echo backslash at the end \\",
    "echo a \\\n",
    "echo two backslashes \\\\",
    "echo 'unterminated",
    'echo "unterminated',
    "echo $(unterminated",
    "echo `unterminated",
    "echo ${unterminated",
    "echo )",
    "( echo",
    "{ echo",
    "}",
    ")",
    "if true; then",
    "fi",
    "do",
    ";;",
    "&& echo",
    "echo a |",
    "echo < ",
    "(( 1 +",
    "[[ a ==",
    "case x in",
    "for",
    "function",
    "f() {",
    "echo $((1/0)); echo after",
    "echo ${x:?message}; echo after",
    "x=; echo ${x:?}",
    "echo a\n)\necho b",
    "echo a\n}\necho b",
    "echo a; (",
    "exit 0\n)",
    "true\n__code=5\necho $__code",
    "echo $__code",
    "_bgpids_file=/nonexistent/x; echo ok",
    "__reach=mine; echo $__reach",
    "echo a\r\necho b\r",
    "printf 'a\\r\\nb\\r'",
    "echo \u00e9\u4e2d\U0001f600",
    "echo '\u2028\u00a0\ufeff'",
    "\ufeffecho bom",
    "echo \x01\x02\x07\x1b[31mred\x1b[0m",
    "echo 'del \x7f ctrl-d \x04 ctrl-c \x03 ctrl-z \x1a'",
    "printf %s '\x08\x0b\x0c\x0e\x1f' | od -An -c",
    "echo \x1e",
    "echo '" + "x" * 5000 + "' | wc -c",
    "echo '" + "long line " * 10000 + "' | wc -c",
    "\n".join(f"echo line {n}" for n in range(200)),
    "true; " * 500 + "echo end",
    "x=$(cat <<'E'\n)\nE\n)\necho \"[$x]\"",
    "echo one; cat <<E; echo three\ntwo\nE",
    "f() {\ncat <<E\nin function $1\nE\n}\nf arg",
    "echo 'a\\\nb'",
    'echo "a\\\nb"',
    "echo a &&\necho b",
    "echo a |\ncat",
    "for i in 1 2\ndo\necho $i\ndone",
    "if true\nthen\necho yes\nfi",
    "case x in\nx)\necho x\n;;\nesac",
    ": <<'COMMENT'\nnot run $(touch never)\nCOMMENT\necho ok; ls",
)

STREAMS = r"""
echo out; echo err >&2
echo err >&2; echo out
echo err >&2
for i in 1 2 3; do echo o$i; echo e$i >&2; done
echo both 2>&1
echo out 2>&1 >/dev/null
ls /nonexistent
ls /nonexistent 2>&1
nosuchcommand
./nosuchfile
/etc/passwd
touch f; ./f
cd /nonexistent; echo $?
cat < nosuchfile
echo x > /nonexistent/f; echo $?
echo x > f; cat f; wc -c < f
echo x >> f; echo y >> f; cat f
echo x > 'sp ace'; cat sp*
echo x | tee f | tr x y; cat f
printf 'a\nb\nc\n' | sort -r | head -2
seq 1000 | tail -1
seq 100000 | md5sum
yes | head -3
yes | head -100000 | wc -l
head -c 100000 /dev/zero | md5sum
head -c 1000 /dev/zero
printf '\0'
printf 'a\0b\0'
printf '\000\377\r\n\200'
printf '\xff\xfe\xfd'
printf '\xe2\x82'
printf 'no newline at the end'
printf 'err no newline' >&2
printf 'x%.0s' {1..3000}
for i in {1..2000}; do printf '日本語'; done | md5sum
awk 'BEGIN{for(i=0;i<70000;i++)printf "line %d\n",i}' | md5sum
awk 'BEGIN{for(i=0;i<70000;i++)printf "line %d\n",i}' >&2
head -c 300000 /dev/zero | tr '\0' e >&2; echo out
head -c 300000 /dev/zero | tr '\0' o; echo err >&2
exec 1>&2; echo to stderr
exec 2>&1; echo err >&2; echo out
exec 1>&-; echo lost; echo $? >&2
exec 2>&-; echo out; ls /nonexistent; echo $?
exec 0<&-; cat; echo $?
exec 0</etc/hostname; wc -l
cat
cat; echo after
read -r x; echo "[$x] $?"
read -t 1 x; echo $?
wc -c
sort
head -1
cat > file; wc -c file
cat - < /dev/null
bash -s <<< 'echo from stdin'
ssh-keygen -h 2>&1 | head -0
{ echo a; echo b >&2; } 2>&1 | sort
{ echo a; echo b >&2; } > f 2>&1; sort f
exec 5>&1; echo five >&5; exec 5>&-
echo a 3>&1 1>&2 2>&3
(echo sub; echo suberr >&2) 2>f; cat f
mkfifo p; echo through > p & cat p; wait
diff <(echo a) <(echo b)
tee >(cat >&2) <<< x >/dev/null; sleep 0.1
echo x | while read -r l; do echo "got $l"; done
find . -maxdepth 1 | sort
mkdir -p a/b/c; touch a/b/c/f; find a | sort
ln -s target link; readlink link; ls -l link | sed 's/.*-> //'
touch -- -f '*' 'a b' $'n\nl'; ls -b
: > locked; chmod 000 locked; ls -l locked | cut -c1-10; echo $?
cp /etc/hostname h; cmp h /etc/hostname && echo same
sed -n '1p' /etc/passwd | cut -d: -f1
grep -c root /etc/passwd
grep nothing /etc/hostname
grep -q root /etc/passwd && echo found
xargs -n1 echo <<< 'a b c'
xargs -0 -n1 < <(printf 'a\0b\0')
python3 -c 'import sys; sys.stdout.write("out"); sys.stderr.write("err"); sys.exit(3)'
python3 -c 'import os; os.write(1, bytes(range(256)))'
python3 -c 'import sys; print(sys.stdin.read(), sys.stdin.isatty(), sys.stdout.isatty())'
python3 -c 'import sys; print(sys.argv)' a 'b c' ''
python3 -c 'raise ValueError("x")' 2>&1 | tail -1
perl -e 'print "perl\n"; exit 2'
git --version | cut -d' ' -f1-2
git init -q . && git status --short | wc -l
tar cf - /etc/hostname 2>/dev/null | tar tf -
gzip -c /etc/hostname | gunzip | cmp - /etc/hostname; echo $?
od -An -tx1 -N4 /dev/zero
dd if=/dev/zero bs=1k count=3 2>/dev/null | wc -c
stty size; echo $?
stty 2>&1
tput cols 2>/dev/null | head -0
ls --color=auto /etc/hostname
test -c /dev/stdin && echo char
id -un
hostname
pwd
date -u -d @0 +%F
expr 1 + 1
bc <<< '2^10' 2>/dev/null || echo none
"""

ENDINGS = r"""
exit 0
exit 1
exit 2
exit 125
exit 126
exit 127
exit 128
exit 129
exit 137
exit 143
exit 255
exit 256
exit -1
exit 300
exit abc
exit
false; exit
true
false
(exit 9)
nosuch; exit
kill -TERM $$
kill -KILL $$
kill -HUP $$
kill -QUIT $$
kill -USR1 $$
kill -PIPE $$
kill -ALRM $$
kill -ABRT $$
kill -SEGV $$
kill -STOP 99999999 2>/dev/null; echo $?
kill -l 15
kill -0 $$; echo $?
bash -c 'kill -9 $$'; echo $?
bash -c 'kill -TERM $$'
bash -c 'kill -SEGV $$'; echo $?
sh -c 'kill -INT $$'; echo $?
sleep 9 & kill -9 $!; wait $!; echo $?
(kill -TERM $BASHPID); echo $?
exec bash -c 'exit 33'
exec sh -c 'kill -KILL $$'
exec nosuchcommand; echo never
timeout 0.1 sleep 5; echo $?
timeout -s KILL 0.1 sleep 5
perl -e 'kill 9, $$'
python3 -c 'import os; os.abort()'; echo $?
python3 -c 'import sys; sys.exit(77)'
python3 -c 'import os; os.kill(os.getpid(), 15)'
trap 'exit 5' TERM; kill -TERM $$; exit 6
bash -c "trap 'exit 5' INT; kill -INT \$\$; exit 6"; echo $?
set -e; trap 'echo cleanup' EXIT; false
set -o errexit; exit 8
cat /dev/zero | head -c 5 | wc -c; echo "${PIPESTATUS[@]}"
yes | true; echo "${PIPESTATUS[@]}"
trap '' PIPE; yes 2>/dev/null | head -1; echo "${PIPESTATUS[0]}"
(sleep 0.4; echo late) & echo early; wait
(sleep 0.4; echo late >&2) &
sleep 0.4 & echo started
(sleep 0.4; echo from the background) & echo in front
nohup sh -c 'sleep 0.05; echo x > f' >/dev/null 2>&1 & wait; cat f
setsid -w sh -c 'echo in a session'
{ sleep 0.02; exit 3; } & wait %1; echo $?
f() { exit 4; }; f
return 2
"""

EXTRA = (
    "echo 'one' > a; echo 'two' > b; cat a b; rm a; ls",
    "i=0; while [ $i -lt 50 ]; do echo $i > f$i; i=$((i+1)); done; ls | wc -l",
    "printf '#!/bin/sh\\necho script $1\\n' > s; chmod +x s; ./s arg",
    "printf '#!/usr/bin/env bash\\necho bash script $0\\n' > s; chmod +x s; ./s",
    "mkdir x && cd x && echo in > f && cd .. && cat x/f",
    "echo 'export A=1' > rc; . ./rc; echo $A",
    "trap 'rm -f lock' EXIT; touch lock; ls",
    "a=1 b=2; echo $a$b; unset a; echo [$a]",
    "exec 9>f; echo nine >&9; cat f",
    "(cd /; pwd); pwd | wc -l",
    "declare -f nothing; echo $?",
    "echo {a..c}{1..2}",
    "echo *",
    "touch a b c; echo ?",
    "touch .hidden; echo * .h*",
    "touch a.txt b.md; ls *.txt; ls *.none",
    "x=5; ((x++)); echo $x; ((x > 5)) && echo big",
    "echo $(( 0x1f )) $(( 010 )) $(( 2#101 ))",
    "printf '%5.2f|%-5s|%05d\\n' 3.14159 ab 42",
    "LC_ALL=C sort <<< $'b\\nA\\na'",
    "TZ=UTC date -d @86400 +%d",
    "echo 'a:b' | { IFS=: read -r x y; echo $y $x; }",
    "cat <(echo 1) - <<< 2",
    "test -e /dev/fd/0 && echo fd",
    "(trap 'echo sub' EXIT); echo main",
    "trap 'echo t1' EXIT; trap 'echo t2' EXIT",
    "trap - EXIT; echo no trap",
    "jobs -p | wc -l; sleep 0.1 & jobs -p | wc -l",
    "command cd /; pwd",
    "builtin echo built",
    "\\echo escaped",
    "'echo' quoted",
    "e=echo; $e var",
    "$(echo echo) substituted",
    "echo a >&1 | cat",
    ">f; ls -s f | cut -c1",
    "< /dev/null",
    "x=1",
    ":",
    "''",
    "! ",
    "printf %s \"$'\"",
    "cat > f.py <<'E'\nimport sys\nprint(len(sys.argv))\nE\npython3 f.py a b",
    "set -- 'a b' c; for i; do echo \"<$i>\"; done",
    "echo \"${!BASH_V*}\"",
    "echo ${BASH_VERSINFO[0]}",
    "f() { echo $#; }; f \"$@\"; f '' ''",
    "exec 3< <(seq 3); while read -u 3 n; do echo $n; done",
    "[ -n \"$BASH_EXECUTION_STRING\" ] && echo has",
    "wait -n; echo $?",
    "kill %1; echo $?",
    "fg; echo $?",
    "printf 'a\\nb' | while read -r l || [ -n \"$l\" ]; do echo \"$l\"; done",
    "caller; echo $?",
    "echo ${FUNCNAME[@]}",
    "dirs",
    "printf '%s\\n' \"$PWD\" | grep -c /",
    "ls -a | wc -l",
    "echo a$'\\n'b",
)


def all_commands() -> list[bytes]:
    lines: list[str] = []
    for block in (QUOTING, CONTROL, BASHISMS, STREAMS, ENDINGS):
        for line in block.strip("\n").replace("\\\n", "\0").split("\n"):
            lines.append(line.replace("\0", "\\\n"))
    joined: list[str] = []
    for line in lines:  # a command may go on over lines while a quote is open
        if joined and _is_open(joined[-1]):
            joined[-1] += "\n" + line
        else:
            joined.append(line)
    return [command.encode("utf-8") for command in [*joined, *TEXT, *EXTRA] if command.strip()]


def _is_open(text: str) -> bool:
    return text in ('echo "a', "echo 'a")

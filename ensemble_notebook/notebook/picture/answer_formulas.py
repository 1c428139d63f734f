r"""Formulas in an answer: where they are, and which of them MathJax may typeset (C30a).

They are those that JupyterLab typesets in Markdown: `$a$`, `$$a$$`, `\\(a\\)`, `\\[a\\]`, `\begin{align}a\end{align}`.
MathJax obeys commands that link, load, style, define or hide, and has new ones with each version. So those that do
nothing but set type are listed, and a formula with any other is shown as its source. What holds a backtick is no
formula: code comes first.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

FORMULA: Final = "formula"
"""The type of its tokens: `content` is the formula, `markup` and `info` are the marks around it for MathJax."""

LONGEST: Final = 2_000
_DEEPEST: Final = 16

_BLOCK: Final = re.compile(r"\$\$|\\\\\[|\\begin\{[A-Za-z]{1,20}\*?\}")
_INLINE: Final = re.compile(rf"{_BLOCK.pattern}|\$|\\\\\(")
_CLOSINGS: Final = {"$": "$", "$$": "$$", r"\\(": r"\\)", r"\\[": r"\\]"}

_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)
_COMMAND: Final = re.compile(r"\\([A-Za-z]+|.)", re.DOTALL)
_ENVIRONMENT: Final = re.compile(r"\\(?:begin|end)(?![A-Za-z])\{?([^{}]*)")
# A comment hides what it says, a parameter belongs to a definition, and what a dollar begins is another formula.
_FORBIDDEN: Final = re.compile(r"(?<!\\)(?:\\\\)*+[$%#]")

_ENVIRONMENTS: Final = """
align align* aligned alignedat array Bmatrix bmatrix cases equation equation* gather gather* gathered matrix multline
multline* pmatrix smallmatrix split Vmatrix vmatrix
"""
_COMMANDS: Final = r"""
\ , : ; ! > { } | & _ % $ #
alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa varkappa lambda mu nu xi omicron pi
varpi rho varrho sigma varsigma tau upsilon phi varphi chi psi omega digamma Gamma Delta Theta Lambda Xi Pi Sigma
Upsilon Phi Psi Omega varGamma varDelta varTheta varLambda varXi varPi varSigma varUpsilon varPhi varPsi varOmega
aleph beth gimel daleth hbar hslash ell wp Re Im imath jmath partial nabla infty eth mho complement Bbbk
frac dfrac tfrac cfrac binom dbinom tbinom sqrt over choose atop
sum prod coprod int iint iiint oint bigcup bigcap bigsqcup bigvee bigwedge bigodot bigotimes bigoplus biguplus
limits nolimits displaystyle textstyle scriptstyle scriptscriptstyle substack
arccos arcsin arctan arg cos cosh cot coth csc deg det dim exp gcd hom inf injlim ker lg lim liminf limsup ln log
max min Pr projlim sec sin sinh sup tan tanh operatorname mod bmod pmod pod
pm mp times div ast star circ bullet cdot cap cup uplus sqcap sqcup vee wedge lor land lnot neg setminus
smallsetminus wr diamond bigtriangleup bigtriangledown triangleleft triangleright oplus ominus otimes oslash odot
bigcirc dagger ddagger amalg ltimes rtimes intercal
le leq leqq leqslant ge geq geqq geqslant ne neq equiv sim simeq approx approxeq cong doteq propto models prec succ
preceq succeq ll gg lll ggg subset supset subseteq supseteq subsetneq supsetneq nsubseteq nsupseteq sqsubset
sqsupset sqsubseteq sqsupseteq in ni notin owns vdash dashv Vdash vDash perp mid nmid parallel nparallel asymp
bowtie smile frown not lt gt nless ngtr nleq ngeq lesssim gtrsim lessgtr triangleq bumpeq trianglelefteq
trianglerighteq colon to gets mapsto longmapsto leftarrow rightarrow leftrightarrow Leftarrow Rightarrow
Leftrightarrow longleftarrow longrightarrow longleftrightarrow Longleftarrow Longrightarrow Longleftrightarrow
uparrow downarrow updownarrow Uparrow Downarrow Updownarrow nearrow searrow swarrow nwarrow hookleftarrow
hookrightarrow leftharpoonup rightharpoonup leftharpoondown rightharpoondown rightleftharpoons leadsto implies
impliedby iff xrightarrow xleftarrow twoheadrightarrow rightsquigarrow nrightarrow nleftarrow upharpoonright
forall exists nexists emptyset varnothing top bot angle measuredangle triangle square blacksquare Box Diamond
lozenge clubsuit diamondsuit heartsuit spadesuit flat natural sharp prime backprime surd checkmark because
therefore S P dots ldots cdots vdots ddots dotsb dotsc dotsm dotsi
left right middle big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr bigm Bigm langle rangle lfloor
rfloor lceil rceil lbrace rbrace lbrack rbrack lvert rvert lVert rVert vert Vert lgroup rgroup backslash
hat widehat bar overline underline tilde widetilde vec dot ddot dddot acute grave breve check mathring overbrace
underbrace overrightarrow overleftarrow overset underset stackrel boxed
mathrm mathbf mathit mathsf mathtt mathcal mathscr mathfrak mathbb boldsymbol pmb text textrm textbf textit textsf
texttt mbox rm bf it cal quad qquad enspace thinspace begin end hline
"""
_HARMLESS_ENVIRONMENTS: Final = frozenset(_ENVIRONMENTS.split())
_HARMLESS_COMMANDS: Final = frozenset([*_COMMANDS.split(), " ", "\n"])


class _Formula(NamedTuple):
    opening: str
    inner: str
    closing: str
    end: int
    """Where it ends in the text."""


def find_formulas(parser: MarkdownIt) -> None:
    """Have a parser find formulas: in lines of their own, in which nothing else counts, and within other text."""
    parser.block.ruler.before("fence", FORMULA, _read_block, {"alt": ["paragraph", "blockquote", "list"]})
    parser.inline.ruler.before("escape", FORMULA, _read_inline)


def is_harmless(formula: str) -> bool:
    """Whether a formula, given without its marks, does nothing but set type, and shows all that it says."""
    return (
        not _FORBIDDEN.search(formula)
        and _is_balanced(formula)
        and all(command in _HARMLESS_COMMANDS for command in _COMMAND.findall(formula))
        and all(name in _HARMLESS_ENVIRONMENTS for name in _ENVIRONMENT.findall(formula))
    )


def _is_balanced(formula: str) -> bool:
    """Whether every brace has its other one, and none stands too deep."""
    depth = 0
    for mark in _BRACE.findall(formula):
        depth += {"{": 1, "}": -1}.get(mark, 0)
        if not 0 <= depth <= _DEEPEST:
            return False
    return depth == 0


def _read_block(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """A formula that begins a line and ends one."""
    position = state.bMarks[first] + state.tShift[first]
    opening = None if state.is_code_block(first) else _BLOCK.match(state.src, position)
    if opening is None:
        return False
    closing = _get_closing(opening[0])
    nearest = state.src.find(closing, opening.end(), position + LONGEST)
    if nearest < 0:
        return False
    last, room = first, LONGEST
    while last < end and room > 0 and not state.isEmpty(last) and state.sCount[last] >= state.blkIndent:
        room -= state.eMarks[last] - state.bMarks[last] + 1
        last += 1
        if opening[0] in _CLOSINGS and state.bMarks[last] > nearest:
            break  # only an environment goes on behind its closing mark, in which there may be one of its kind
    text = state.getLines(first, last, state.blkIndent, False).lstrip()
    formula = _find(text, 0)
    if formula is None or text[formula.end :].partition("\n")[0].strip():
        return False
    if not silent:
        state.line = first + text.count("\n", 0, formula.end) + 1
        token = state.push(FORMULA, "div", 0)
        token.content, token.markup, token.info, token.block = formula.inner, formula.opening, formula.closing, True
    return True


def _read_inline(state: StateInline, silent: bool) -> bool:
    formula = _find(state.src, state.pos)
    if formula is None:
        return False
    if not silent:
        token = state.push(FORMULA, "span", 0)
        token.content, token.markup, token.info = formula.inner, formula.opening, formula.closing
    state.pos = formula.end
    return True


def _find(text: str, at: int) -> _Formula | None:
    """The formula that begins there."""
    match = _INLINE.match(text, at)
    if match is None or (end := _find_end(text, match)) < 0:
        return None
    opening, closing = match[0], _get_closing(match[0])
    inner = text[match.end() : end - len(closing)]
    if "`" in inner or not inner.strip():
        return None
    if opening == "$":  # an amount of money is none
        around = text[at - 1 : at] + text[end : end + 1]
        if inner != inner.strip() or any(each.isalnum() or each == "$" for each in around):
            return None
    if opening.startswith(r"\begin"):
        return _Formula("", text[at:end], "", end)
    return _Formula(opening.replace(r"\\", "\\"), inner, closing.replace(r"\\", "\\"), end)


def _find_end(text: str, opening: re.Match[str]) -> int:
    """Where the formula ends; -1 where it has no end that is near enough."""
    closing = _get_closing(opening[0])
    start, most = opening.end(), opening.start() + LONGEST
    open_ones = 1
    while (place := text.find(closing, start, most)) >= 0:
        end = place + len(closing)
        if opening[0] in _CLOSINGS:
            if text[place - 1] != "\\":
                return end
        else:  # an environment may stand in one of its kind
            open_ones += text.count(opening[0], start, place) - 1
            if open_ones == 0:
                return end
        start = end
    return -1


def _get_closing(opening: str) -> str:
    return _CLOSINGS.get(opening) or opening.replace("begin", "end", 1)

#!/usr/bin/env python3
"""Writes small_templates.json: small chat templates, and what transformers makes of them.

Usage: small_templates.py FOLDER PYTHON4

Run with transformers 5.24. PYTHON4 is a Python with transformers 4.57. Cases on which the two do not agree are
left out and printed.
"""
import json
import subprocess
import sys
from pathlib import Path

CHATS = {
    "short": [{"role": "user", "content": "Où 🙂 est"}],
    "named": [{"role": "user", "content": "Hi", "name": "ann"}, {"role": "assistant", "content": ""}],
    "talk": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "  What is 2+2?\n"},
        {"role": "assistant", "content": "<think>\neasy\n</think>\n\n4"}, {"role": "user", "content": "Straße İ ǆ ﬁ Ω"},
        {"role": "assistant", "content": "a,b;c\td\r\ne"}, {"role": "user", "content": "10 20 -3 4.5 x"}],
}
ARGUMENTS = {
    "none": {},
    "some": {
        "tools": [{"type": "function", "function": {"name": "add", "description": "Adds \"two\" <b>numbers</b>",
                                                    "parameters": {"a": {"type": "number"}, "b": None}}}],
        "documents": [{"title": "T", "text": "one\ntwo"}], "flag": True, "off": False, "nothing": None, "n": 7, "x": 2.5,
        "text": "a-b_c d", "items": [3, 1, 2], "words": ["b", "A", "c", "a"], "table": {"z": 1, "a": {"k": [True, None]}},
        "people": [{"name": "Bo", "age": 30, "city": "Oslo"}, {"name": "al", "age": 7, "city": "Bern"},
                   {"name": "Cy", "age": 30, "city": "Oslo"}]},
}
TOKENS = {
    "all": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "sep_token": "<sep>",
            "cls_token": "<cls>", "mask_token": "<mask>"},
    "few": {"eos_token": "</s>"},
}

SHORT = r"""
{{ (messages[0].content and 'has') or 'no' }}
{{ messages[0].name and ' (' + messages[0].name + ')' }}
{{ messages[0].content[:4] }}
{{ messages[0].content|length }}
{{ messages[0].role[0] }}|{{ messages[0].content[-1] }}|{{ messages[0].content[::-1] }}|{{ messages[0].content[1::2] }}
{{ 'x' ~ messages[0].nope }}
{{ none }}|{{ None }}|{{ true }}|{{ False }}|{{ true and none }}
{% if nope is undefined %}u{% endif %}{% if nope is defined %}d{% endif %}
{% set o = {} %}{{ 'Y' if o else 'N' }}{{ 'Y' if [] else 'N' }}{{ 'Y' if '' else 'N' }}{{ 'Y' if 0.0 else 'N' }}
{{ 7 / 2 }} {{ 6 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }}
{{ 'v' ~ 2.0 }} {{ 1e3 }} {{ 1.5e-7 }} {{ 1_000 }} {{ 0x1F }} {{ 0b11 }} {{ 0o17 }} {{ 1e16 }} {{ 123456789.123 }}
{{ 'é'|upper }} {{ 'É'|lower }} {{ 'ß'|upper }} {{ 'İ'|lower }}
{{ 'caf\u00e9' }} {{ '\n\t\\ \x41 \U0001f642 \N{BULLET}' }} {{ "it's \"q\"" }} {{ 'a\'b' }}
{{ bos_token is defined }} {{ pad_token }} {{ unk_token }} {{ sep_token }} {{ cls_token }} {{ mask_token }} {{ eos_token }}
{{ bos_token }}{{ bos_token is none }}{{ nope is none }}
{{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b '.split() }} {{ 'a b'.split(' ') }}
{{ ','.join(['a', 'b']) }} {{ ['a', 1, none]|join('+') }} {{ ''.join([]) }}
{{ '%s is %d, %.2f %5s|%-5s| %x %%' % ('x', 3, 2.5, 'ab', 'cd', 255) }} {{ '%s' % 'one' }} {{ '%(a)s' % {'a': 1} }}
{{ '{} {1} {0}'.format('a', 'b') if false else '{1} {0}'.format('a', 'b') }} {{ '{:>5}|{:<5}|{:^5}|{:05.1f}'.format('a', 'b', 'c', 2.25) }}
{{ '{a[k]} {b!r}'.format(a={'k': 1}, b='q') }} {{ '{x}'.format_map({'x': 5}) }}
{% macro f(x) %}a{{ x }}{% endmacro %}{{ f('b').upper() }} {{ f(1)|length }} {{ f() }}
{% raw %}{{ not }} {% me %}{% endraw %}
{{ {'a': 1,} }} {{ [1, 2,] }} {{ (1, 2,) }} {{ (1,) }} {{ () }} {{ {} }} {{ [] }}
{{ 'a' 'b' }} {{ 'a' "b" 'c' }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c, d = [3, 4] %}{{ c + d }}
{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{{ loop.depth }}{% endif %}{% endfor %}
{% set ns = namespace(a=1) %}{% for i in range(3) %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }} {{ ns }}
{% set x = 1 %}{% for i in range(3) %}{% set x = i %}{% endfor %}{{ x }}
{% set block %}a {{ 1 + 1 }} b{% endset %}[{{ block }}]
{% set block | upper %}abc{% endset %}{{ block }}
{% for i in range(5) %}{% if i == 1 %}{% continue %}{% endif %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in [] %}x{% else %}empty{% endfor %}
{% for i in [1, 2, 3] if i != 2 %}{{ i }}:{{ loop.index }}/{{ loop.length }} {% endfor %}
{% for i in 'abc' %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.cycle('x', 'y') }}{{ loop.changed(i) }} {% endfor %}
{% for i in [1, 2, 3] %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}
{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% endfor %}{% for k in {'x': 1} %}{{ k }}{% endfor %}
{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a in [1, 2] %}{% for b in [1, 2] %}{{ a * b }}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}
{% macro m(a, b='d', c=none) %}{{ a }}-{{ b }}-{{ c }}|{{ varargs }}|{{ kwargs }}{% endmacro %}{{ m(1) }} {{ m(1, 2, 3, 4, 5) }} {{ m(b=1, a=2, z=3) }}
{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}in{% endcall %}
{% macro m(u) %}{{ caller(u, 2) }}{% endmacro %}{% call(a, b) m(1) %}{{ a }}{{ b }}{% endcall %}
{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(3) }} {{ m.name }} {{ m.arguments }}
{% filter upper %}abc {{ 'x' }}{% endfilter %}
{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% if 1 %}a{% elif 2 %}b{% else %}c{% endif %}{% if not 1 %}a{% elif 0 %}b{% else %}c{% endif %}
{{ 1 if false }}|{{ 1 if true }}|{{ 'a' if 1 else 'b' if 2 else 'c' }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ '1' == 1 }} {{ 'a' < 'b' }} {{ 1 != 2 }} {{ not 1 == 2 }} {{ [1, 2] == (1, 2) }}
{{ 'a' in 'abc' }} {{ 1 in [1] }} {{ 'k' in {'k': 1} }} {{ 'z' not in 'abc' }} {{ 1 in (2, 3) }}
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ +1 }} {{ --1 }} {{ 10 - 2 - 3 }}
{{ 'a' * 3 }} {{ [1] * 2 }} {{ 'a' + 'b' }} {{ [1] + [2] }} {{ 1 ~ 2 ~ none ~ true }}
{{ [1, 2, 3][1] }} {{ [1, 2, 3][-1] }} {{ [1, 2, 3][1:] }} {{ [1, 2, 3][::-1] }} {{ [1, 2, 3][:-1] }} {{ [1, 2, 3, 4][::2] }}
{{ {'a': {'b': 1}}.a.b }} {{ {'a': 1}['a'] }} {{ {'a': 1}.get('b', 2) }} {{ {'a': 1}.b }}|{{ {'items': 1}['items'] }}
{{ {'a': 1}.keys()|list }} {{ {'a': 1}.values()|list }} {{ {'b': 1, 'a': 2}|dictsort }} {{ {'a': 1}.items()|list }}
{{ dict(a=1, b=2) }} {{ dict([('k', 'v')]) }} {{ dict(a=1).a }}
{{ range(3)|list }} {{ range(1, 10, 3)|list }} {{ range(3, 0, -1)|list }} {{ range(3) }}
{% set j = joiner(', ') %}{% for i in range(3) %}{{ j() }}{{ i }}{% endfor %}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}
{%- generation %} a {% endgeneration -%}
{{ messages }}
{{ messages[0] }}
{{ messages|tojson }}
{{ messages[0]|tojson(indent=2) }}
{{ tools }} {{ documents }} {{ tools is none }} {{ documents is defined }} {{ add_generation_prompt }}
{{ strftime_now('%%') }}{{ strftime_now('x') }}{{ strftime_now is defined }}{{ strftime_now('%Y')|length }}
{{ raise_exception is defined }}{{ raise_exception is callable }}{{ lipsum is callable }}
{{ raise_exception('Roles must alternate') }}
a{{ 1 }}{#- c -#} b {# d #}c
{%- set x = 1 -%} y {{- x }} z
"""
FILTERS = r"""
abs: -3, 2.5
attr: messages[0]|attr('role')
batch: [1, 2, 3]|batch(2)|list, [1, 2, 3]|batch(2, 'x')|list
capitalize: 'hELLO wORLD', '', 'éa'
center: '[' ~ 'ab'|center(7) ~ ']'
count: [1, 2]|count, 'où'|count
default: nope|default('d'), ''|default('d'), ''|default('d', true), none|default('d'), none|d('d', true), 0|default(1, boolean=true)
dictsort: {'b': 1, 'A': 2}|dictsort, {'b': 1, 'A': 2}|dictsort(true), {'b': 1, 'a': 2}|dictsort(by='value'), {'b': 1, 'a': 2}|dictsort(reverse=true)
escape: '<a href="x">&\'</a>'|escape, '<'|e, '<b>'|safe, '<b>'|e|upper, ('<b>'|e) ~ '<i>'
filesizeformat: 1|filesizeformat, 1000|filesizeformat, 1500000|filesizeformat, 1024|filesizeformat(true)
first: [1, 2]|first, 'où'|first, []|first
float: '2.5'|float, 'x'|float, 'x'|float(1.5), 3|float, none|float
forceescape: '<b>'|forceescape
format: '%s-%s'|format('a', 1), '%(a)s'|format(a=2)
groupby: [{'a': 1, 'b': 2}, {'a': 1, 'b': 3}, {'a': 0, 'b': 4}]|groupby('a')|list
indent: 'a\nb\n\nc'|indent, 'a\nb'|indent(2), 'a\nb'|indent(2, true), 'a\n\nb'|indent(2, blank=true), 'a\nb'|indent('> ')
int: '42'|int, '4.7'|int, 'x'|int, 'x'|int(9), '0x1F'|int(base=16), 3.9|int, none|int, true|int
items: {'a': 1}|items|list, nope|items|list
join: [1, 2]|join, [1, 2]|join(', '), messages|join(',', attribute='role'), 'abc'|join('-'), []|join(',')
last: [1, 2]|last, 'oùé'|last, []|last
length: 'où 🙂'|length, []|length, {'a': 1}|length
list: 'où'|list, (1, 2)|list, {'a': 1}|list, range(2)|list
lower: 'ÀÉ'|lower, 1|lower, none|lower
map: messages|map(attribute='role')|list, ['a', 'b']|map('upper')|join, [{'a': 1}, {}]|map(attribute='a', default='z')|list, ['1', '2']|map('int')|sum, [' a ']|map('trim')|list
max: [1, 3, 2]|max, ['a', 'B']|max, ['a', 'B']|max(true), []|max, messages|map(attribute='role')|max
min: [3, 1]|min, [{'a': 2}, {'a': 1}]|min(attribute='a'), []|min
pprint: {'b': [1, 2], 'a': 'x'}|pprint, 'é'|pprint
reject: [1, 2, 3]|reject('odd')|list, [0, 1]|reject|list
rejectattr: messages|rejectattr('role', 'equalto', 'user')|list, [{'a': 0}, {'a': 1}]|rejectattr('a')|list
replace: 'aXbX'|replace('X', '-'), 'aXbX'|replace('X', '-', 1), 'abc'|replace('', '.'), 123|replace('2', 'x'), 'aaa'|replace('aa', 'b')
reverse: 'oùé'|reverse, [1, 2, 3]|reverse|list, (1, 2)|reverse|list
round: 2.5|round, 3.5|round, 2.567|round(2), 2.1|round(0, 'ceil'), 2.9|round(method='floor'), 42|round
select: [1, 2, 3]|select('odd')|list, [0, 1, '', 'a']|select|list, [1, 5]|select('greaterthan', 3)|list, [1, 2]|select('in', [2, 3])|list
selectattr: messages|selectattr('role', 'equalto', 'user')|list|length, [{'a': 0}, {'a': 1}]|selectattr('a')|list, [{'a': none}]|selectattr('a', 'none')|list, messages|selectattr('name', 'defined')|list
slice: [1, 2, 3, 4, 5]|slice(2)|list, [1, 2, 3]|slice(2, 'x')|list
sort: [3, 1, 2]|sort, ['b', 'A', 'c']|sort, ['b', 'A']|sort(case_sensitive=true), [1, 2]|sort(reverse=true), [{'a': 2}, {'a': 1}]|sort(attribute='a'), 'cab'|sort
string: 1|string, none|string, [1, 'a']|string, 2.0|string, true|string, nope|string, messages[0]|string
striptags: '<p>a  <b>b</b> &amp; c</p><!-- x -->'|striptags
sum: [1, 2.5]|sum, [{'a': 1}, {'a': 2}]|sum(attribute='a'), [1]|sum(start=10), []|sum
title: 'hello wORLD-foo (bar) \'baz\' x\'s'|title, 'élan vital'|title
trim: ' a \n'|trim, 'xxaxx'|trim('x'), '\u3000a\u00a0'|trim, 'a'|trim(chars=none)
truncate: 'hello big world'|truncate(9), 'hello big world'|truncate(9, true), 'hello'|truncate(3, true, '…', 0), 'hello big'|truncate(8, leeway=0)
tojson: {'é': '<&>\'"'}|tojson, none|tojson, true|tojson, 1.0|tojson, [1e20, 0.1]|tojson, {'b': 1, 'a': [1, {}]}|tojson(indent=4), {'b': 1, 'a': 2}|tojson(sort_keys=true), 'é'|tojson(ensure_ascii=true), [1, {'a': 2}]|tojson(separators=(',', ':')), {1: 2, none: 3, true: 4}|tojson, (1, 2)|tojson, '\u2028\x7f\x00'|tojson
unique: [1, 2, 1]|unique|list, ['a', 'A', 'b']|unique|list, ['a', 'A']|unique(true)|list, [{'a': 1}, {'a': 1}]|unique(attribute='a')|list
upper: 'straße éλ'|upper, 1|upper
urlencode: 'a b/é?&'|urlencode, {'a': 'b c', 'd': 1}|urlencode, [('x', 'y z')]|urlencode
urlize: 'see https://example.com/x now'|urlize, 'www.example.com'|urlize(10)
wordcount: 'one two  thrée'|wordcount
wordwrap: 'aaa bbb ccc ddd'|wordwrap(7), 'aaaaaaaa'|wordwrap(3), 'a b'|wordwrap(1, wrapstring='|')
xmlattr: '[' ~ {'a': 1, 'b': '<', 'c': none}|xmlattr ~ ']'
chains: ' Ab '|trim|lower|replace('a', 'x')|upper, [[1, 2], [3]]|map('length')|sum, messages|map(attribute='content')|map('length')|list
"""
TESTS = r"""
boolean: true, 1, none
callable: range, 1, raise_exception
defined: nope, messages, messages[0].nope, messages[9]
divisibleby 2: 4, 3
eq 1: 1, 1.0, '1'
equalto 'a': 'a', 'b'
escaped: 'a', 'a'|e
even: 2, 3
false: false, 0
filter: 'upper', 'nosuch'
float: 1.0, 1
ge 2: 2, 1
gt 2: 3, 2
in [1, 'a']: 1, 'a', 2
integer: 1, true, 1.0
iterable: 'a', [1], 1, nope
le 2: 2, 3
lower: 'a', 'A', 'aB'
lt 2: 1, 2
mapping: {}, [], messages[0]
ne 1: 2, 1
none: none, 0, nope
number: 1, 1.5, '1', true
odd: 1, 2
sameas true: true, 1
sequence: [], 'a', {}, 1
string: 'a', 1, messages[0].content
test: 'odd', 'nosuch'
true: true, 1
undefined: nope, none, messages[0].nope
upper: 'A', 'a'
"""
METHODS = r"""
'hello world'.title() 'Hello'.swapcase() 'hello'.capitalize() 'HELLO'.casefold() 'ab'.center(6, '*') 'ab'.ljust(4) ~ '|' 'ab'.rjust(4) '7'.zfill(3)
'hello'.find('l') 'hello'.rfind('l') 'hello'.find('z') 'hello'.index('e') 'hello'.count('l') 'où est'.find('e')
'hello'.startswith('he') 'hello'.endswith(('x', 'lo')) 'hello'.startswith('l', 2)
'  a '.strip() '  a '.lstrip() ~ '|' '|' ~ ' a '.rstrip() 'xxaxx'.strip('x') 'ab\n'.rstrip('\n') '\n\na'.lstrip('\n')
'a-b-c'.partition('-') 'a-b-c'.rpartition('-') 'abc'.partition('-') 'a\nb\r\nc'.splitlines() 'a\nb'.splitlines(true)
'aXbX'.replace('X', '') 'aXbX'.replace('X', '--', 1) 'a.b'.split('.')[-1] 'prefix-x'.removeprefix('prefix-') 'x.py'.removesuffix('.py')
'abc'.isalpha() '12'.isdigit() 'a1'.isalnum() ' '.isspace() 'AB'.isupper() 'ab'.islower() 'Ab Cd'.istitle() '½'.isnumeric()
'a\tb'.expandtabs(4) 'abc'.encode() 'é'.encode('utf-8')|length 'x'.join(['a', 'b', 'c'])
[1, 2, 1].count(1) [1, 2].index(2) [1, 2].copy() {'a': 1}.copy() (1, 2).count(1)
{'a': 1}.get('a') {'a': 1}.get('z') {'a': 1}.get('z', 'd') {'a': 1}.items() {'a': 1}.keys() {'a': 1}.values()
(5).bit_length() (2.5).is_integer() (255).to_bytes(1, 'big') 1.5.hex()
"""
ERRORS = r"""
{{ messages[0].content + 1 }}
{{ 1 / 0 }}
{{ nope.x }}
{{ nope() }}
{{ nope + 1 }}
{{ 'a' - 'b' }}
{{ 'a'|nosuch }}
{{ 1 is nosuch }}
{{ [1, 2].append(3) }}
{{ messages.pop() }}
{{ {'a': 1}.update({'b': 2}) }}
{{ messages[0].clear() }}
{% set messages[0].x = 1 %}
{% set o = {} %}{% set o.x = 1 %}
{{ ''.__class__.__mro__ }}
{{ messages.__init__.__globals__ }}
{{ '{0.__class__}'.format('x') }}
{{ ('%s' % messages).nope.x }}
{% for x in 5 %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{{ range(100001)|length }}
{{ 'a'.split('') }}
{{ 'abc'.index('z') }}
{{ []|random.x }}
{{ [1, 'a']|sort }}
{{ messages[0].role.nope.nope }}
{{ none.x.y }}
{{ none + 'a' }}
{{ {}['a'] + 'x' }}
{{ [][0] + 'x' }}
{{ raise_exception('Only ' + messages[0].role + '!') }}
{{ raise_exception() }}
{{ 1|tojson(width=2) }}
{{ range|tojson }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{% include 'x' %}
{% import 'x' as y %}
{% extends 'x' %}
{{ 'x'.format_map(1, 2) }}
{{ 10 ** 5000 }}
{{ 'a' * 'b' }}
{{ -'a' }}
{{ 'x' < 1 }}
{{ 'x' in 5 }}
{% if %}x{% endif %}
{% for x in %}{% endfor %}
{{ 'open }}
{{ (1 }}
{% endif %}
{% frobnicate %}
{{ a b }}
{{ }}
{% set x %}
{% macro %}{% endmacro %}
{# no end
{% raw %}
{{ {1: } }}
{% if x %}
{% block a %}{% block a %}{% endblock %}{% endblock %}
{{ namespace(__class__=1) }}
"""
WITH_ARGUMENTS = r"""
{{ n + x }} {{ n * 2 }} {{ x|int }} {{ n / 2 }} {{ n is odd }} {{ flag }} {{ off }} {{ nothing }} {{ nothing is none }}
{% if tools %}{% for t in tools %}{{ t | tojson }}{% endfor %}{% endif %}
{% if tools is not none and tools is defined %}{{ tools | tojson(indent=4) }}{% endif %}
{% for t in tools %}{{ t.function.name }}({{ t.function.parameters.keys()|join(', ') }}){% endfor %}
{% for t in tools %}{{ t.function.description|e }} {{ t.function.parameters.b is none }}{% endfor %}
{% for d in documents %}{{ d.title }}: {{ d['text'] }}{% endfor %} {{ documents|length }}
{{ items|sort }} {{ items|sum }} {{ items|join(',') }} {{ items[0] }} {{ items[-1:] }} {{ items|max }} {{ items }}
{{ words|sort }} {{ words|map('upper')|join }} {{ words|unique|list }} {{ words|select('in', ['a', 'c'])|list }}
{{ table }} {{ table.a.k }} {{ table|tojson }} {{ table|dictsort }} {{ table.z is number }} {{ table['a']['k'][0] }}
{{ table|tojson(indent=2, sort_keys=true) }}
{% for k, v in table.items() %}{{ k }}:{{ v }} {% endfor %}{% for k, v in table|dictsort %}{{ k }}{% endfor %}
{% for g in people|groupby('city') %}{{ g.grouper }}={{ g.list|map(attribute='name')|join('+') }};{% endfor %}
{% for city, group in people|groupby('city') %}{{ city }}{{ group|length }}{% endfor %}
{{ people|sort(attribute='age,name')|map(attribute='name')|join(' ') }} {{ people|sum(attribute='age') }}
{{ people|selectattr('age', 'gt', 10)|map(attribute='name')|list }} {{ people|map(attribute='name')|sort|join }}
{{ people|rejectattr('city', 'eq', 'Oslo')|first }} {{ people|max(attribute='age') }}
{{ text.split('-') }} {{ text|title }} {{ text|replace('_', ' ') }} {{ text[::2] }} {{ text|upper }}
{{ flag and 'yes' or 'no' }} {{ off and 'yes' or 'no' }} {{ nothing or 'default' }} {{ nothing|default('d') }} {{ nothing|default('d', true) }}
{% set found = namespace(value=none) %}{% for p in people %}{% if p.age < 10 %}{% set found.value = p.name %}{% endif %}{% endfor %}{{ found.value }}
{% macro show(p) %}{{ p.name }}{% if not loop is defined %}!{% endif %}{% endmacro %}{% for p in people %}{{ show(p) }}{% endfor %}
"""
TALK = r"""
{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}
{% for m in messages %}{{ m.content|trim }}|{{ m.content.strip()|length }};{% endfor %}
{% for m in messages %}{{ m.content|upper }} {{ m.content|lower }} {{ m.content|title }} {{ m.content|capitalize }}{% endfor %}
{% for m in messages if m.role != 'system' %}{{ loop.index0 }}{{ m.role[0]|upper }}{{ ',' if not loop.last }}{% endfor %}
{% for m in messages %}{% if '</think>' in m.content %}{{ m.content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') }}#{{ m.content.split('</think>')[-1].lstrip('\n') }}{% endif %}{% endfor %}
{{ messages[1:]|map(attribute='role')|join(' ') }} {{ messages[::-1][0].role }} {{ messages|length }} {{ (messages|last).content }}
{% set ns = namespace(i=-1) %}{% for m in messages[::-1] %}{% set index = (messages|length - 1) - loop.index0 %}{% if m.role == 'user' and ns.i < 0 %}{% set ns.i = index %}{% endif %}{% endfor %}{{ ns.i }}
{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}{% set rest = messages[1:] %}{% else %}{% set rest = messages %}{% endif %}{{ system }}|{{ rest|length }}
{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 1) %}{{ raise_exception('Conversation roles must alternate') }}{% endif %}{% endfor %}ok
{% for m in messages %}{% if m['content'] is string %}{{ m['content'] }}{% else %}{% for c in m['content'] %}{{ c }}{% endfor %}{% endif %}{% endfor %}
{% for m in messages %}{{ m.get('tool_calls') }}{{ m.tool_calls is defined }}{{ 'tool_calls' in m }}{{ m.items()|list|length }} {% endfor %}
{% for m in messages %}{{ m.content.splitlines() }}{% endfor %}
{% for m in messages %}{{ m.content.split() }}{{ m.content|wordcount }}{% endfor %}
{% for m in messages %}{{ m.content|tojson }}{{ m.content|tojson(ensure_ascii=true) }}{% endfor %}
{% for m in messages %}{{ m|tojson }}{% endfor %}{{ messages|tojson(indent=2) }}
{% for r, ms in messages|groupby('role') %}{{ r }}{{ ms|list|length }} {% endfor %}
{% for w in messages[5].content.split(' ') %}{{ w|int }}/{{ w|float }}/{{ w is number }} {% endfor %}
{% for m in messages %}{{ m.content[:3] }}|{{ m.content[-3:] }}|{{ m.content[3] }} {% endfor %}
{% for m in messages %}{{ m.content|replace('\n', '\\n') }}{% endfor %}{{ messages[4].content.replace('\r\n', '') }}
{% for m in messages %}{{ m.content|truncate(8) }}{{ m.content|wordwrap(5) }}{{ m.content|indent(2) }}{% endfor %}
{% for m in messages %}{%- if m.role == 'user' %}{%- set loop_role = 'U' %}{%- else %}{%- set loop_role = 'O' %}{%- endif %}{{ loop_role }}{% endfor %}
{% generation %}{% for m in messages %}{{ m.role }}{% endfor %}{% endgeneration %}
{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}{{ additional_special_tokens is defined and false }}
"""
MULTILINE = [
    "{% for m in messages %}\n  {{ m.role }}\n{% endfor %}\nend\n", "{%- for m in messages %}\n  {{- m.role }}\n{%- endfor %}\n\nend",
    "  {% if true %}\n    a\n  {% endif %}\n b\n", "a\n{# comment #}\nb\n", "\t{%+ if true %}\n x{%+ endif %}\n", "a\r\n{% if true %}\r\nb\r\n{% endif %}\r\nc",
    "{{ 'a' }}\n{{ 'b' }}\n\n", "x {%- set y = 1 +%}\n z", "{% if true -%}\n   a\n{%- endif +%}\n\n", "{% macro m() -%}\n  x\n{%- endmacro %}\n[{{ m() }}]",
    "{% set t %}\n a\n b\n{% endset %}\n<{{ t }}>", "{% raw %}\n {{ x }}\n{% endraw %}\n.", "{% for i in range(2) -%}\n\n {{ i }}\n\n{% endfor %}",
    "{# a\n b #}\n\n  {# c #}  x", "{{\n  1 +\n  2\n}}", "{%\n if true\n%}y{% endif %}", "\n\n{{ 1 }}\n\n\n", "{% if false %}\n{% else %}\n e\n{% endif %}",
    "{%- if messages -%} {{- ' a ' -}} {%- endif -%} ", "{{ '\n' }}x{{- '\n' -}} y", "# not a comment\n## {{ 1 }}\n% if\n", "{{ '{{' }} {{ '%}' }} {{ \"#}\" }}",
    "line {{ 1 }} {# c1 #}{# c2 #}\n  {%- if true %} t {% endif -%}\n end",
]


def blocks():
    """(template, chat, arguments, tokens)"""
    for text, chat, arguments in ((SHORT, "short", "none"), (ERRORS, "short", "none"), (WITH_ARGUMENTS, "short", "some"),
                                  (TALK, "talk", "none")):
        for line in text.strip("\n").split("\n"):
            yield line, chat, arguments, "all"
    for line in SHORT.strip("\n").split("\n")[:16]:
        yield line, "named", "some", "few"
    for line in FILTERS.strip("\n").split("\n"):
        name, _, uses = line.partition(": ")
        expressions = [use if "|" in use or name == "center" else f"{use}|{name}" for use in split_uses(uses)]
        yield "".join("{{ " + use + " }};" for use in expressions), "talk", "none", "all"
    for line in TESTS.strip("\n").split("\n"):
        test, _, values = line.partition(": ")
        yield "".join("{{ (%s) is %s }} " % (value, test) for value in split_uses(values)), "short", "none", "all"
    for line in METHODS.strip("\n").split("\n"):
        for use in split_calls(line):
            yield "{{ " + use + " }}", "short", "none", "all"
    for template in MULTILINE:
        yield template, "short", "none", "all"


def split_uses(text):
    """Splits at ", " outside of brackets and strings."""
    parts, depth, quote, part, escaped = [], 0, "", "", False
    for character in text:
        if character == "," and depth == 0 and not quote:
            parts.append(part.strip())
            part = ""
            continue
        part += character
        if quote:
            quote = "" if character == quote and not escaped else quote
        elif character in "'\"":
            quote = character
        else:
            depth += (character in "([{") - (character in ")]}")
        escaped = character == "\\" and not escaped
    return parts + [part.strip()]


def split_calls(text):
    """Splits at a space behind a bracket or word, outside of brackets and strings, before a value."""
    parts, depth, quote, part = [], 0, "", ""
    for place, character in enumerate(text):
        if character == " " and depth == 0 and not quote and part and part[-1] in ")]'" and text[place + 1] not in "~|":
            if not part.rstrip().endswith("~"):
                parts.append(part)
                part = ""
                continue
        part += character
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        else:
            depth += (character in "([{") - (character in ")]}")
    return parts + [part]


def results():
    """[expected or None] of every case, by transformers."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast
    tokenizers = {name: PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"<unk>": 0}, "<unk>")), **tokens)
                  for name, tokens in TOKENS.items()}
    found = []
    for template, chat, arguments, tokens in blocks():
        for add_generation_prompt in (True, False):
            try:
                found.append(tokenizers[tokens].apply_chat_template(
                    CHATS[chat], chat_template=template, tokenize=False, add_generation_prompt=add_generation_prompt,
                    **ARGUMENTS[arguments]))
            except Exception:
                found.append(None)
    return found


def main():
    if sys.argv[1] == "--results":
        print(json.dumps(results()))
        return 0
    folder, older = sys.argv[1:]
    mine = results()
    others = json.loads(subprocess.run([older, __file__, "--results"], capture_output=True, check=True).stdout)
    cases, seen, place = [], set(), 0
    for template, chat, arguments, tokens in blocks():
        for add_generation_prompt in (True, False):
            expected, other = mine[place], others[place]
            place += 1
            key = (template, chat, arguments, tokens)
            if expected != other:
                print(f"transformers 4 and 5 differ: {template}")
            elif key not in seen or expected != cases[-1][4]:
                seen.add(key)
                cases.append([template, chat, arguments, tokens, expected, add_generation_prompt])
    data = {"chats": CHATS, "arguments": ARGUMENTS, "tokens": TOKENS, "cases": cases}
    text = json.dumps(data, ensure_ascii=False, indent=0)
    (Path(folder) / "small_templates.json").write_text(text, encoding="utf-8", newline="")
    num_errors = sum(case[4] is None for case in cases)
    print(f"{len(cases)} cases of {len(seen)} templates, {num_errors} of them errors, {len(text)} characters")
    return 0


if __name__ == "__main__":
    sys.exit(main())

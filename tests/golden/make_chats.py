#!/usr/bin/env python3
"""Write chats.json: chat templates in the manner of those that models bring, and the texts that
transformers 5.17 makes of conversations with them.

    python3 tests/golden/make_chats.py > tests/golden/chats.json

A case: the template, tokens that the tokenizer names, whether a table can say what it does ("name" of the
built-in template with these turns, or null), else `refused`, a word of the reason. `texts` are the
conversations of `conversations` in order; null where the template refuses one."""
import json
import os

os.environ["TRANSFORMERS_VERBOSITY"] = "error"
from transformers.utils.chat_template_utils import render_jinja_template  # noqa: E402

S, U, A = "system", "user", "assistant"
conversations = [
    [(U, "What is this?"), (A, "A cat.")],
    [(S, "Be brief."), (U, "Hello"), (A, "Hi")],
    [(U, " two\nlines \n"), (A, "  spaces \n"), (U, "\u00a0more\u3000"), (A, "\u2003done\u001f")],
    [(S, "\n s "), (U, "a"), (A, "b"), (U, "c"), (A, "d"), (U, "e"), (A, "f")],
    [(U, "<b>{{ x }}</b> {% if %} 'q' \"r\""), (A, "\\n #} <tag>")],
    [(U, "a"), (U, "b"), (A, "c")],
    [(S, "s"), (U, "q"), (A, "<think>\nw\n</think>\n\nx"), (U, "r"), (A, " <think> v </think>\ny ")],
]
loop = "{% for message in messages %}"
end = "{% endfor %}"
chatml = loop + "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}" + end
prompt = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
templates = {
    "chatml": (chatml + prompt, {}, {"name": "chatml"}),
    "chatml without a prompt": (chatml, {}, {"name": "chatml"}),
    "a system turn of its own": (
        loop + "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou are a helpful "
        "assistant.<|im_end|>\\n' }}{% endif %}" + chatml[len(loop):] + prompt, {}, {"name": "chatml"}),
    "with a branch for tools": ("""{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {{- tools | tojson }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou were made by us. You help.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""", {}, {"name": "chatml"}),
    "headers, trimmed": (
        "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
        "message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
        "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}",
        {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}, {"name": "llama3"}),
    "headers with an empty system turn": ("""{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""", {"bos_token": "<|begin_of_text|>"}, {"name": None}),
    "instructions in brackets": (
        "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Conversation roles must alternate user/assistant!') }}{% endif %}{% if message['role'] == "
        "'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}"
        "{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles!') }}{% endif %}"
        "{% endfor %}", {"bos_token": "<s>", "eos_token": "</s>"}, {"name": None}),
    "turns of a model": ("""{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{% for message in messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}
{{ '<start_of_turn>' + role + '
' + message['content'] | trim + '<end_of_turn>
' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model
'}}{% endif %}""", {"bos_token": "<bos>"}, {"name": None}),
    "names and colons": (
        "{% for message in messages %}{% if message['role'] == 'system' %}{{ message['content'] + ' ' }}{% elif "
        "message['role'] == 'user' %}{{ 'USER: ' + message['content'] + ' ' }}{% else %}{{ 'ASSISTANT: ' + "
        "message['content'] + eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}",
        {"eos_token": "</s>"}, {"name": None}),
    "bars and eos": (
        "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\\n' + message['content'] + eos_token }}\n"
        "{% elif message['role'] == 'system' %}\n{{ '<|system|>\\n' + message['content'] + eos_token }}\n{% elif "
        "message['role'] == 'assistant' %}\n{{ '<|assistant|>\\n'  + message['content'] + eos_token }}\n{% endif %}\n"
        "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}",
        {"eos_token": "</s>"}, {"name": None}),
    "lists of parts": (
        "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% if message['content'] is string %}"
        "{{ message['content'] }}{% else %}{% for content in message['content'] %}{% if content['type'] == 'image' %}"
        "<image>{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
        "{% endfor %}" + prompt, {}, {"name": "chatml"}),
    "only lists of parts": (
        "{% for message in messages %}{{ message['role'].upper() + ': ' }}{% for content in message['content'] | "
        "selectattr('type', 'equalto', 'image') %}{{ '<image>\\n' }}{% endfor %}{% for content in message['content'] | "
        "selectattr('type', 'equalto', 'text') %}{{ content['text'] }}{% endfor %}{{ eos_token + '\\n' }}{% endfor %}",
        {"eos_token": "</s>"}, {"name": None, "parts": True}),
    "a namespace": (
        "{%- set ns = namespace(system='', n=0) -%}{%- for m in messages if m.role == 'system' -%}{%- set ns.system = m.content "
        "-%}{%- endfor -%}{%- if ns.system -%}{{ '<sys>' ~ ns.system ~ '</sys>' }}{%- endif -%}{%- for m in messages if m.role "
        "!= 'system' -%}{{ '<' ~ m.role ~ '>' ~ m.content ~ '</' ~ m.role ~ '>' }}{%- endfor -%}", {}, {"name": None}),
    "thoughts before the last answer": (
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' and loop.last %}"
        "{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{{ m.content + '<|im_end|>\\n' }}{% endfor %}", {},
        {"refused": "the last answer begins otherwise|it changes"}),
    "thoughts cut off": (
        "{% for m in messages %}{% set c = m.content %}{% if '</think>' in c %}{% set c = c.split('</think>')[-1] %}{% endif %}"
        "{{ '<|im_start|>' + m.role + '\\n' + c + '<|im_end|>\\n' }}{% endfor %}", {}, {"refused": "it changes"}),
    "today": (chatml + "{{ strftime_now('%d') }}", {}, {"refused": "today's date"}),
    "no end": ("{% for m in messages %}{{ m.role + ': ' + m.content }}{% if not loop.last %}\n\n{% endif %}{% endfor %}", {},
               {"refused": "ends otherwise|no end"}),
    "one end trimmed": ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content.lstrip() + '<|im_end|>\\n' }}"
                        "{% endfor %}", {}, {"refused": "it changes"}),
    "macros and captures": (
        "{% macro text(c, tail='') %}{% if c is string %}{{ c }}{% else %}{% for p in c %}{{ p.text }}{% endfor %}{% endif %}"
        "{{ tail }}{% endmacro %}{% for m in messages %}{% set body %}{{ text(m.content) }}{% endset %}{{ '<|im_start|>' ~ m.role ~ "
        "'\n' ~ body }}{{ text('<|im_end|>', tail='\n') }}{% endfor %}", {}, {"name": "chatml"}),
    "a call of a block": ("{% call f() %}x{% endcall %}", {}, {"refused": "\"call\""}),
    "a tail": (chatml + "{{ '</s>' }}", {}, {"name": None}),
    "spaces around answers": (
        "{% for m in messages %}{% if m.role == 'system' %}{{ '<sys>' + m.content + '</sys>' }}{% elif m.role == 'user' %}{{ '[Q] ' + "
        "m.content + ' [A]' }}{% else %}{{ ' ' + m.content + '</s>' }}{% endif %}{% endfor %}", {}, {"name": None}),
    "the day in a system turn of its own": (
        "{% set d = strftime_now('%d') %}{% if messages[0].role != 'system' %}{{ '<|im_start|>system\nIt is ' + d + '<|im_end|>\n' }}"
        "{% endif %}" + chatml + prompt, {}, {"name": "chatml", "dated": True}),
    "a day that is given": (
        "{% if messages[0].role == 'system' %}{% set s = messages[0].content | trim %}{% set messages = messages[1:] %}{% else %}"
        "{% set s = '' %}{% endif %}{{ '<|im_start|>system\n' + (date_string if date_string is defined else strftime_now('%d')) + "
        "'\n\n' + s + '<|im_end|>\n' }}{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
        "{% endfor %}", {}, {"name": None}),
    "thoughts of the last answer": (
        "{% set ns = namespace(q=-1) %}{% for m in messages %}{% if m.role == 'user' and not (m.content.startswith('<tool_response>') "
        "and m.content.endswith('</tool_response>')) %}{% set ns.q = loop.index0 %}{% endif %}{% endfor %}{% for m in messages %}"
        "{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}{% set c = m.content | trim %}{% set t = m.reasoning_content "
        "if m.reasoning_content is string else '' %}{% if not (m.reasoning_content is string) and '</think>' in c %}{% set t = "
        "c.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}{% set c = c.split('</think>')[-1].lstrip('\n') %}"
        "{% endif %}{% if loop.index0 > ns.q %}{{ '<think>\n' + t | trim + '\n</think>\n\n' }}{% endif %}{{ c }}{% else %}"
        "{{ m.content }}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>\n' }}"
        "{% endif %}", {}, {"name": None}),
    "the system text in the first question": (
        "{{ bos_token }}{% if messages[0].role == 'system' %}{% set s = messages[0].content + '\n\n' %}{% set messages = messages[1:] %}"
        "{% else %}{% set s = '' %}{% endif %}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('by turns') }}{% endif %}{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + (s if "
        "loop.first else '') + m.content | trim + '<end_of_turn>\n' }}{% endfor %}", {"bos_token": "<bos>"}, {"name": "gemma"}),
    "the system text joined with the first question": (
        "{% if messages[0].role == 'system' %}{% set s = '<<SYS>>\n' + messages[0].content + '\n<</SYS>>\n\n' %}{% set messages = "
        "messages[1:] %}{% else %}{% set s = '' %}{% endif %}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('by turns') }}{% endif %}{% if m.role == 'user' %}{{ bos_token + '[INST] ' + ((s if loop.first else '') + "
        "m.content).strip() + ' [/INST]' }}{% else %}{{ ' ' + m.content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
        {"bos_token": "<s>", "eos_token": "</s>"}, {"name": "llama2"}),
    "reversed": ("{% for m in messages[::-1] %}{{ m.content }}<|im_end|>{% endfor %}", {}, {"refused": "not in its place"}),
    "an unknown filter": ("{% for m in messages | unique %}{{ m.content }}<|im_end|>{% endfor %}", {}, {"refused": "unique"}),
    "without contents": ("{% for m in messages %}<|im_end|>{% endfor %}", {}, {"refused": "left out"}),
    "cut": (chatml[:-12], {}, {"refused": "ends inside"}),
}


def run(template, names, in_parts):
    texts = []
    for turns in conversations:
        messages = [{"role": r, "content": [{"type": "text", "text": c}] if in_parts else c} for r, c in turns]
        try:
            text = render_jinja_template(conversations=[messages], chat_template=template, tools=None, documents=None,
                                         add_generation_prompt=False, date_string="26 Jul 2024", **names)[0][0]
        except Exception:  # the template's own refusal
            text = None
        texts.append(text)
    return texts


print('{"conversations": %s,\n"cases": [' % json.dumps(
    [[{"from": {S: "system", U: "human", A: "gpt"}[r], "value": c} for r, c in turns] for turns in conversations]))
lines = []
for title, (template, names, more) in templates.items():
    parts, dated = more.pop("parts", False), more.pop("dated", False)
    case = {"title": title, "template": template, "names": names, **more}
    if "refused" not in more:
        case["texts"] = run(template, names, parts)
        if dated:  # the day's text of a conversation without a system turn is nobody's
            case["texts"] = [t if c[0][0] == S else None for t, c in zip(case["texts"], conversations)]
    lines.append(json.dumps(case))
print(",\n".join(lines) + "\n]}")

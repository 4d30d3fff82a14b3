/* Escaping, tables, the head of the page. */
#include "console/report/html.h"

#include <stdio.h>
#include <string.h>

#include "core/base/str.h"

void cs_html_text(struct cs_buf *out, const char *text)
{
    static const struct {
        char c;
        const char *as;
    } entities[] = {
        {'&',  "&amp;" },
        {'<',  "&lt;"  },
        {'>',  "&gt;"  },
        {'"',  "&quot;"},
        {'\'', "&#39;" },
    };

    struct cs_buf clean = {0};
    cs_str_clean(&clean, text, strlen(text));
    for (size_t i = 0; i < clean.len; i++) {
        const char *as = NULL;
        for (size_t k = 0; k < CS_ARRAY_LEN(entities) && !as; k++)
            as = clean.data[i] == entities[k].c ? entities[k].as : NULL;
        if (as)
            cs_buf_adds(out, as);
        else
            cs_buf_addc(out, clean.data[i]);
    }
    cs_buf_free(&clean);
}

static void add_textv(struct cs_buf *out, const char *fmt, va_list args)
{
    struct cs_buf text = {0};
    cs_buf_addv(&text, fmt, args);
    cs_html_text(out, cs_buf_str(&text));
    cs_buf_free(&text);
}

void cs_html_textf(struct cs_buf *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_textv(out, fmt, args);
    va_end(args);
}

void cs_html_element(struct cs_buf *out, const char *tag, const char *class, const char *text)
{
    cs_buf_addf(out, class ? "<%s class=\"%s\">" : "<%s>", tag, class);
    cs_html_text(out, text);
    cs_buf_addf(out, "</%s>\n", tag);
}

void cs_html_fact(struct cs_buf *out, const char *name, const char *text)
{
    if (text == NULL || text[0] == '\0')
        return;
    cs_buf_addf(out, "<tr><th scope=\"row\">%s</th><td>", name);
    cs_html_text(out, text);
    cs_buf_adds(out, "</td></tr>\n");
}

void cs_html_factf(struct cs_buf *out, const char *name, const char *fmt, ...)
{
    va_list args;
    cs_buf_addf(out, "<tr><th scope=\"row\">%s</th><td>", name);
    va_start(args, fmt);
    add_textv(out, fmt, args);
    va_end(args);
    cs_buf_adds(out, "</td></tr>\n");
}

void cs_html_table(struct cs_buf *out, const char *columns)
{
    cs_buf_adds(out, "<table class=\"list\"><thead><tr>");
    for (const char *at = columns; *at; at += *at == '|') {
        const size_t n = strcspn(at, "|");
        const bool is_number = n > 0 && at[n - 1] == '#';
        cs_buf_addf(out, "<th scope=\"col\"%s>%.*s</th>", is_number ? " class=\"n\"" : "",
                    (int)(n - is_number), at);
        at += n;
    }
    cs_buf_adds(out, "</tr></thead><tbody>\n");
}

void cs_html_cell(struct cs_buf *out, const char *text, bool is_number)
{
    cs_buf_adds(out, is_number ? "<td class=\"n\">" : "<td>");
    cs_html_text(out, text);
    cs_buf_adds(out, "</td>");
}

/* Colours are those of Okabe and Ito, told apart by most eyes; lines differ in their dashes too. */
static const char style[] =
    ":root{color-scheme:light dark;--ink:#1b1e23;--dim:#5c6370;--paper:#fff;--rule:#d7dbe0;"
    "--c0:#0072b2;--c1:#b85000;--c2:#00795a;--c3:#9b4a80;--c4:#806000;--c5:#3f7fa8;--bad:#b3261e;"
    "--f:#0072b2;--b:#d98200;--w:#9b4a80;--u:#00795a}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--dim:#a0a7b2;--paper:#15181c;"
    "--rule:#39404a;--c0:#56b4e9;--c1:#e69f00;--c2:#2fc79b;--c3:#d99cc0;--c4:#f0e442;"
    "--c5:#8fb8ff;--bad:#ff8a80;--f:#2f8fd0;--b:#e69f00;--w:#cc79a7;--u:#2fc79b}}\n"
    "body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--paper);"
    "max-width:76rem;margin:0 auto;padding:1.5rem}\n"
    "h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2rem 0 .6rem;"
    "border-bottom:1px solid var(--rule)}h3{font-size:1rem;margin:1rem 0 .3rem}\n"
    "p,figcaption,.dim{color:var(--dim);margin:.3rem 0}.bad{color:var(--bad);font-weight:600}\n"
    "table{border-collapse:collapse;margin:.4rem 0;display:block;overflow-x:auto}"
    "th,td{text-align:left;vertical-align:top;padding:.15rem .9rem .15rem 0;overflow-wrap:anywhere}"
    "th{font-weight:600;white-space:nowrap}.list thead th{border-bottom:1px solid var(--rule)}"
    ".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,32rem),1fr));"
    "gap:1rem}figure{margin:0;break-inside:avoid}figcaption b{color:var(--ink)}\n"
    "svg{width:100%;height:auto;display:block}svg text{fill:var(--dim);font:11px system-ui,"
    "sans-serif}.axis{stroke:var(--rule);stroke-width:1}.line{fill:none;stroke-width:1.6;"
    "stroke-linejoin:round}.band{stroke:none;opacity:.22}.raw{opacity:.4}\n"
    ".s0{stroke:var(--c0)}.s1{stroke:var(--c1);stroke-dasharray:7 2}"
    ".s2{stroke:var(--c2);stroke-dasharray:2 2}.s3{stroke:var(--c3);stroke-dasharray:9 2 2 2}"
    ".s4{stroke:var(--c4);stroke-dasharray:4 4}.s5{stroke:var(--c5);stroke-dasharray:1 3}"
    ".s6{stroke:var(--c1);stroke-dasharray:14 3}.s7{stroke:var(--c2);stroke-dasharray:5 2 1 2}\n"
    ".band.s0{fill:var(--c0)}circle.s1{fill:var(--c1);stroke-dasharray:none}\n"
    ".F{fill:var(--f)}.B{fill:var(--b)}.W{fill:var(--w)}.U{fill:var(--u)}.idle{fill:var(--rule);"
    "opacity:.5}svg .mark{fill:#fff;font-size:9px}.key{display:inline-block;width:.8em;"
    "height:.8em;margin:0 .3em 0 1em}.kF{background:var(--f)}.kB{background:var(--b)}"
    ".kW{background:var(--w)}.kU{background:var(--u)}.kA{background:var(--c4)}.kS{background:var(--"
    "c3)}\n"
    ".bar{display:flex;width:18rem;height:.9rem;background:var(--rule)}.bar i{display:block}\n"
    "pre{overflow-x:auto;font-size:12px}@media print{body{max-width:none;padding:0}"
    "details{display:none}}\n";

void cs_html_begin(struct cs_buf *out, const char *title)
{
    cs_buf_adds(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                     "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                     "style-src 'unsafe-inline'\">\n");
    cs_html_element(out, "title", NULL, title);
    cs_buf_addf(out, "<style>\n%s</style>\n</head>\n<body>\n", style);
}

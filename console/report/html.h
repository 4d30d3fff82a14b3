/* Pieces of HTML and SVG. Every text that comes from outside goes through cs_html_text. */
#ifndef CS_CONSOLE_REPORT_HTML_H
#define CS_CONSOLE_REPORT_HTML_H

#include "core/base/buf.h"

/* escaped for elements and for attributes in double quotes; what a terminal must not see is not
 * shown here either */
void cs_html_text(struct cs_buf *out, const char *text);
void cs_html_textf(struct cs_buf *out, const char *fmt, ...) CS_PRINTF(2, 3);
/* <TAG CLASS>text</TAG>; class NULL: none */
void cs_html_element(struct cs_buf *out, const char *tag, const char *class, const char *text);
/* a row of a table of two columns; nothing without a text */
void cs_html_fact(struct cs_buf *out, const char *name, const char *text);
void cs_html_factf(struct cs_buf *out, const char *name, const char *fmt, ...) CS_PRINTF(3, 4);
/* <table> and its head: columns separated by '|', those that end with '#' hold numbers */
void cs_html_table(struct cs_buf *out, const char *columns);
void cs_html_cell(struct cs_buf *out, const char *text, bool is_number);
/* what the page begins with, up to <body>, and its styles */
void cs_html_begin(struct cs_buf *out, const char *title);

#endif

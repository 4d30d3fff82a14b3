/* The chat templates that come with the program, as tables. */
#ifndef CS_INPUT_CHAT_BUILTIN_H
#define CS_INPUT_CHAT_BUILTIN_H

#include "input/chat/template.h"

/* The n-th, NULL behind the last; the first is chatml. */
const struct cs_template *cs_template_builtin(int n);
/* The built-in template of this name, NULL: there is none. */
const struct cs_template *cs_template_find(const char *name);
/* the built-in template with the same turns, else chat->name */
const char *cs_template_name_of(const struct cs_template *chat);
/* For people: "chatml, llama3, ...". Appends. */
void cs_template_list(struct cs_buf *out);

#endif

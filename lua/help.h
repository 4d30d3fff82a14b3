/* What a person who types asks: what a function does, what may follow, whether more lines do. */
#ifndef CS_LUA_HELP_H
#define CS_LUA_HELP_H

#include "lua/eval.h"

/* Help of "cs.plan", "plan", "cs.plan:bubble" or ":bubble"; false: there is none, and out says what there is. */
bool cs_lua_help(const char *name, struct cs_buf *out);
/* Adds to list what the word before the end of text may become, whole words: names of globals, of fields and
 * methods of what stands before the last . or :, keys of the argument table that is being written. Nothing of the
 * text is run. Returns how many bytes at the end of text the word has. */
size_t cs_lua_complete(struct cs_lua *lua, const char *text, json_t *list);
/* The text is the beginning of a chunk, not a whole one. */
bool cs_lua_is_begun(struct cs_lua *lua, const char *text);
/* Where somebody types: cs is there without require, help(cs.plan) and help "cs.plan" print. */
enum cs_status cs_lua_prepare_typing(struct cs_lua *lua, struct cs_err *err) CS_NODISCARD;

#endif

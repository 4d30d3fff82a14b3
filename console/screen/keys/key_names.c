/* Keys by name, both ways. */
#include <stdio.h>
#include <string.h>

#include "console/screen/keys/keys.h"
#include "core/base/str.h"

static const struct {
    const char *name;
    int key;
} names[] = {
    {"Space",     ' '             },
    {"Tab",       CS_KEY_TAB      },
    {"S-Tab",     CS_KEY_BACKTAB  },
    {"Enter",     CS_KEY_ENTER    },
    {"Esc",       CS_KEY_ESC      },
    {"Backspace", CS_KEY_BACKSPACE},
    {"Up",        CS_KEY_UP       },
    {"Down",      CS_KEY_DOWN     },
    {"Left",      CS_KEY_LEFT     },
    {"Right",     CS_KEY_RIGHT    },
    {"Home",      CS_KEY_HOME     },
    {"End",       CS_KEY_END      },
    {"PgUp",      CS_KEY_PGUP     },
    {"PgDn",      CS_KEY_PGDN     },
    {"Delete",    CS_KEY_DELETE   },
};

static bool parse_function(const char *name, size_t n, int *key)
{
    int number = 0;
    if (n < 2 || n > 3 || name[0] != 'F')
        return false;
    for (size_t i = 1; i < n; i++) {
        if (name[i] < '0' || name[i] > '9')
            return false;
        number = 10 * number + name[i] - '0';
    }
    *key = CS_KEY_F1 + number - 1;
    return number >= 1 && number <= 12;
}

void cs_key_name(int key, char out[24])
{
    const char *alt = key >= CS_KEY_ALT ? "Alt-" : "";
    char name[12] = "?";
    key = key >= CS_KEY_ALT ? key - CS_KEY_ALT : key;
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++)
        if (names[i].key == key) {
            snprintf(out, 24, "%s%s", alt, names[i].name);
            return;
        }
    if (key >= 1 && key <= 26)
        snprintf(name, sizeof name, "C-%c", key + 'a' - 1);
    else if (key >= CS_KEY_F1 && key <= CS_KEY_F12)
        snprintf(name, sizeof name, "F%d", key - CS_KEY_F1 + 1);
    else if (key > ' ' && key < CS_KEY_UP && !cs_utf8_is_unsafe((uint32_t)key))
        name[cs_canvas_encode((uint32_t)key, name)] = '\0';
    snprintf(out, 24, "%s%s", alt, name);
}

bool cs_key_parse(const char *name, size_t n, int *key)
{
    uint32_t code = 0;
    if (n > 4 && memcmp(name, "Alt-", 4) == 0 && cs_key_parse(name + 4, n - 4, key)) {
        *key += CS_KEY_ALT;
        return true;
    }
    if (parse_function(name, n, key))
        return true;
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++)
        if (strlen(names[i].name) == n && memcmp(names[i].name, name, n) == 0) {
            *key = names[i].key;
            return true;
        }
    if (n == 3 && name[0] == 'C' && name[1] == '-' && name[2] >= 'a' && name[2] <= 'z') {
        *key = name[2] - 'a' + 1;
        return true;
    }
    if (n == 0 || cs_utf8_decode(name, n, &code) != n || code < ' ')
        return false;
    *key = (int)code;
    return true;
}

/* What comes from the terminal: keys, pasted text, the mouse. */
#include <poll.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "console/screen/keys/keys.h"
#include "console/screen/terminal/term_private.h"
#include "core/base/system/clock.h"

enum { MOST_PASTED = 65536 };

#define PASTE_LOST_NS INT64_C(2000000000)

static const struct {
    wint_t curses;
    int key;
} key_names[] = {
    {KEY_UP,        CS_KEY_UP       },
    {KEY_DOWN,      CS_KEY_DOWN     },
    {KEY_LEFT,      CS_KEY_LEFT     },
    {KEY_RIGHT,     CS_KEY_RIGHT    },
    {KEY_HOME,      CS_KEY_HOME     },
    {KEY_END,       CS_KEY_END      },
    {KEY_PPAGE,     CS_KEY_PGUP     },
    {KEY_NPAGE,     CS_KEY_PGDN     },
    {KEY_BTAB,      CS_KEY_BACKTAB  },
    {KEY_BACKSPACE, CS_KEY_BACKSPACE},
    {KEY_ENTER,     CS_KEY_ENTER    },
    {KEY_DC,        CS_KEY_DELETE   },
};

static bool has_input_ended(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) == 1 && (input.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
}

static int function_key(wint_t code)
{
    for (int i = 1; i <= 12; i++)
        if (code == (wint_t)KEY_F(i))
            return CS_KEY_F1 + i - 1;
    return -1;
}

static int plain_key(int kind, wint_t code)
{
    if (kind != KEY_CODE_YES)
        return code == '\n' ? CS_KEY_ENTER : code == 8 ? CS_KEY_BACKSPACE : (int)code;
    for (size_t i = 0; i < CS_ARRAY_LEN(key_names); i++)
        if (key_names[i].curses == code)
            return key_names[i].key;
    return function_key(code);
}

static void shorten(struct cs_buf *buf, size_t n)
{
    buf->len -= n;
    buf->data[buf->len] = '\0';
}

/* true: it has ended. A signal between its bytes tears the mark at the end apart, which then comes as text. */
static bool take_pasted(struct cs_term *term, int kind, wint_t code)
{
    static const char end[] = "\x1b[201~";
    static const size_t n_end = sizeof end - 1;
    char bytes[4];
    if (kind == KEY_CODE_YES)
        return false;
    if (term->pasted.len >= MOST_PASTED + n_end) { /* the mark is still looked for */
        memmove(term->pasted.data + MOST_PASTED, term->pasted.data + MOST_PASTED + 1,
                term->pasted.len - MOST_PASTED - 1);
        shorten(&term->pasted, 1);
    }
    cs_buf_add(&term->pasted, bytes, cs_canvas_encode((uint32_t)code, bytes));
    const size_t n = term->pasted.len;
    if (n < n_end || memcmp(cs_buf_str(&term->pasted) + n - n_end, end, n_end) != 0)
        return false;
    shorten(&term->pasted, n_end);
    return true;
}

/* Whoever types on long after what was pasted last has lost its end. */
static bool is_lost(const struct cs_term *term)
{
    return cs_now_ns() - term->pasted_ns > PASTE_LOST_NS;
}

/* Of the wheel and of the first button, pressed or clicked. */
static bool take_mouse(struct cs_term *term)
{
    MEVENT event;
    if (getmouse(&event) != OK)
        return false;
    const bool is_up = event.bstate & BUTTON4_PRESSED, is_down = event.bstate & BUTTON5_PRESSED;
    term->mouse = (struct cs_term_mouse){event.x, event.y, is_up ? -1 : is_down ? 1 : 0};
    return is_up || is_down || (event.bstate & (BUTTON1_PRESSED | BUTTON1_CLICKED));
}

/* Escape with a character right behind it is that with Alt: nobody types so fast. Other keys, and Escape again, are
 * keys of their own, which a slow line brings together. */
static int with_alt(void)
{
    wint_t code;
    const int kind = get_wch(&code);
    if (kind == OK && code >= ' ')
        return CS_KEY_ALT + plain_key(kind, code);
    if (kind != ERR)
        ungetch((int)code);
    return CS_KEY_ESC;
}

/* A paste that has ended, else a key; -1: nothing yet. */
static int take(struct cs_term *term, int kind, wint_t code)
{
    if (kind == KEY_CODE_YES && code == CS_TERM_PASTE_BEGIN) {
        term->is_pasting = true;
        term->pasted_ns = cs_now_ns();
        cs_buf_reset(&term->pasted);
        return -1;
    }
    if (kind == KEY_CODE_YES && code == CS_TERM_PASTE_END) {
        const bool has_begun = term->is_pasting;
        term->is_pasting = false;
        return has_begun ? CS_KEY_PASTE : -1;
    }
    if (term->is_pasting && is_lost(term))
        term->is_pasting = false;
    if (term->is_pasting) {
        term->pasted_ns = cs_now_ns();
        term->is_pasting = !take_pasted(term, kind, code);
        return term->is_pasting ? -1 : CS_KEY_PASTE;
    }
    if (kind == KEY_CODE_YES && code == KEY_MOUSE)
        return take_mouse(term) ? CS_KEY_MOUSE : -1;
    if (kind != KEY_CODE_YES && code == CS_KEY_ESC)
        return with_alt();
    return plain_key(kind, code);
}

int cs_term_key(struct cs_term *term, bool *is_gone)
{
    wint_t code;
    *is_gone = false;
    for (;;) {
        const int kind = get_wch(&code);
        if (kind == ERR) {
            *is_gone = has_input_ended();
            return -1;
        }
        const int key = take(term, kind, code);
        if (key >= 0)
            return key;
    }
}

const char *cs_term_pasted(const struct cs_term *term, size_t *n)
{
    *n = term->pasted.len;
    return cs_buf_str(&term->pasted);
}

struct cs_term_mouse cs_term_mouse_at(const struct cs_term *term)
{
    return term->mouse;
}

void cs_term_mouse(struct cs_term *term, bool is_on)
{
    (void)term;
    mouseinterval(0);
    mousemask(is_on ? BUTTON1_PRESSED | BUTTON4_PRESSED | BUTTON5_PRESSED : 0, NULL);
}

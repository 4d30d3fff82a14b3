/* Keys as numbers: a code point, C-a..C-z as 1..26, or one of these. */
#ifndef CS_CONSOLE_VIEWS_STATE_KEY_CODES_H
#define CS_CONSOLE_VIEWS_STATE_KEY_CODES_H

enum cs_key {
    CS_KEY_TAB = 9,
    CS_KEY_ENTER = 13,
    CS_KEY_ESC = 27,
    CS_KEY_BACKSPACE = 127,
    CS_KEY_UP = 0x110000, /* above the code points */
    CS_KEY_DOWN,
    CS_KEY_LEFT,
    CS_KEY_RIGHT,
    CS_KEY_HOME,
    CS_KEY_END,
    CS_KEY_PGUP,
    CS_KEY_PGDN,
    CS_KEY_BACKTAB,
    CS_KEY_DELETE,
    CS_KEY_F1, /* to F12 */
    CS_KEY_F12 = CS_KEY_F1 + 11,
    CS_KEY_PASTE,         /* pasted text lies ready */
    CS_KEY_MOUSE,         /* so does what the mouse did */
    CS_KEY_ALT = 0x400000 /* added to the key that Alt was held with */
};

#endif

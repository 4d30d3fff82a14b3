/* Shows a canvas on the terminal and reads its keys, through ncurses. */
#include "console/screen/terminal/term_private.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>
/* term.h defines macros with short names */
#include <term.h>
#undef columns
#undef lines

enum { ESC_DELAY_MS = 25 };

static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

/* The shell must not inherit a raw terminal. endwin is not async-signal-safe, but the process is
 * lost anyway; the handler was reset, so that a second fault ends it at once. */
static void on_crash(int number)
{
    cs_term_page_rescue();
    endwin();
    raise(number);
}

static void catch_crashes(void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler,
                               .sa_flags = handler == SIG_DFL ? 0 : (int)SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < CS_ARRAY_LEN(crash_signals); i++)
        sigaction(crash_signals[i], &action, NULL);
}

void cs_term_modes(bool is_on)
{
    const char *mode = is_on ? "\033[?2004h" : "\033[?2004l";
    ssize_t ignored = write(STDOUT_FILENO, mode, strlen(mode));
    (void)ignored;
}

static void setup(struct cs_term *term, const char *color)
{
    set_escdelay(ESC_DELAY_MS);
    raw(); /* C-c, C-z and C-\ are keys */
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    curs_set(0);
    define_key("\033[200~", CS_TERM_PASTE_BEGIN);
    define_key("\033[201~", CS_TERM_PASTE_END);
    cs_term_modes(true);
    int n_colors = has_colors() ? (start_color(), use_default_colors(), COLORS) : 0;
    term->scheme = cs_theme_choose(color, getenv("NO_COLOR"), n_colors);
    if (n_colors < 8 && term->scheme == CS_SCHEME_DEFAULT)
        term->scheme = CS_SCHEME_MONO;
    term->chosen = term->scheme;
}

static void take_size(struct cs_term *term)
{
    term->cols = COLS;
    term->rows = LINES;
    free(term->shown);
    term->shown = calloc((size_t)COLS * (size_t)LINES + 1, sizeof *term->shown);
    CS_ASSERT(term->shown);
    term->is_all_dirty = true;
}

enum cs_status cs_term_open(const char *color, struct cs_term **out, struct cs_err *err)
{
    const char *name = getenv("TERM");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return cs_fail(err, CS_UNSUPPORTED,
                       "standard input and output must be a terminal; try --plain");
    FILE *page = cs_term_page_open();
    if (!page)
        return cs_fail(err, CS_IO,
                       "standard output cannot be opened once more: too many open files");
    struct sigaction before[2]; /* the library's own handlers end the program with 1, also later */
    sigaction(SIGINT, NULL, &before[0]);
    sigaction(SIGTERM, NULL, &before[1]);
    SCREEN *screen = newterm(NULL, page, stdin);
    sigaction(SIGINT, &before[0], NULL);
    sigaction(SIGTERM, &before[1], NULL);
    if (!screen) {
        cs_term_page_close(page);
        return cs_fail(err, CS_UNSUPPORTED, "unknown terminal TERM=%s; try --plain",
                       name ? name : "");
    }
    char cup_name[] = "cup";
    const char *cup = tigetstr(cup_name);
    if (!cup || cup == (char *)-1) {
        endwin();
        delscreen(screen);
        cs_term_page_close(page);
        return cs_fail(err, CS_UNSUPPORTED,
                       "the terminal TERM=%s cannot place the cursor; try --plain", name);
    }
    struct cs_term *term = calloc(1, sizeof *term);
    CS_ASSERT(term);
    term->screen = screen;
    term->out = page;
    setup(term, color);
    take_size(term);
    catch_crashes(on_crash);
    *out = term;
    return CS_OK;
}

void cs_term_close(struct cs_term *term)
{
    if (!term)
        return;
    catch_crashes(SIG_DFL);
    cs_term_modes(false);
    endwin();
    delscreen(term->screen);
    cs_term_page_close(term->out);
    free(term->shown);
    cs_buf_free(&term->pasted);
    free(term);
}

void cs_term_size(const struct cs_term *term, int *cols, int *rows)
{
    *cols = term->cols;
    *rows = term->rows;
}

void cs_term_resize(struct cs_term *term)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0)
        resize_term(size.ws_row,
                    size.ws_col); /* resizeterm puts a key before bytes that were read already, and
                                                  its removal takes one of them */
    clearok(stdscr, TRUE);
    take_size(term);
}

/* --- drawing ---------------------------------------------------------------------------------- */

static bool is_same_look(struct cs_look a, struct cs_look b)
{
    return a.fg == b.fg && a.bg == b.bg;
}

static bool has_colors_of(enum cs_scheme scheme)
{
    return scheme == CS_SCHEME_DEFAULT || scheme == CS_SCHEME_LIGHT || scheme == CS_SCHEME_SAFE;
}

/* A role whose colours this terminal does not have looks as it does without any: one colour of two that
 * belong together, black without the yellow behind it, may be nothing to see. */
static struct cs_look look_of(const struct cs_term *term, enum cs_style style)
{
    struct cs_look look = cs_theme_look(term->scheme, style);
    if (term->own && term->own->has[style] && has_colors_of(term->scheme))
        look = term->own->look[style];
    return look.fg < COLORS && look.bg < COLORS ? look : cs_theme_look(CS_SCHEME_MONO, style);
}

static short pair_of(struct cs_term *term, struct cs_look look)
{
    if ((look.fg < 0 && look.bg < 0) || !has_colors_of(term->scheme))
        return 0;
    for (short i = 1; i <= term->n_pairs; i++)
        if (is_same_look(term->pair[i], look))
            return i;
    if (term->n_pairs + 1 >= CS_TERM_PAIRS || term->n_pairs + 1 >= COLOR_PAIRS)
        return 0;
    term->n_pairs++;
    term->pair[term->n_pairs] = look;
    init_pair(term->n_pairs, look.fg, look.bg);
    return term->n_pairs;
}

static attr_t attrs_of(struct cs_look look)
{
    return (look.attrs & CS_ATTR_BOLD ? A_BOLD : 0) | (look.attrs & CS_ATTR_DIM ? A_DIM : 0) |
           (look.attrs & CS_ATTR_REVERSE ? A_REVERSE : 0) |
           (look.attrs & CS_ATTR_UNDERLINE ? A_UNDERLINE : 0);
}

static void put_cell(struct cs_term *term, int x, int y, const struct cs_cell *cell)
{
    wchar_t text[2] = {(wchar_t)cell->code, L'\0'};
    struct cs_look look = look_of(term, (enum cs_style)cell->style);
    cchar_t wide;
    if (setcchar(&wide, text, attrs_of(look), pair_of(term, look), NULL) == OK)
        mvadd_wch(y, x, &wide);
}

void cs_term_flush(struct cs_term *term, const struct cs_canvas *canvas)
{
    int cols = cs_canvas_cols(canvas), rows = cs_canvas_rows(canvas);
    if (term->is_all_dirty)
        erase();
    for (int y = 0; y < rows && y < term->rows; y++) {
        for (int x = 0; x < cols && x < term->cols; x++) {
            const struct cs_cell *cell = cs_canvas_cell(canvas, x, y);
            struct cs_cell *shown = &term->shown[(size_t)y * (size_t)term->cols + (size_t)x];
            if (!term->is_all_dirty && shown->code == cell->code && shown->style == cell->style)
                continue;
            *shown = *cell;
            if (cell->code != 0)
                put_cell(term, x, y, cell);
        }
    }
    term->is_all_dirty = false;
    cs_term_page_refresh();
}

void cs_term_theme(struct cs_term *term, int theme, const struct cs_theme_own *own)
{
    const enum cs_scheme scheme = theme == CS_THEME_AUTO ? term->chosen : (enum cs_scheme)theme;
    const bool can = scheme == CS_SCHEME_MONO || scheme == CS_SCHEME_NONE || has_colors();
    term->own = own;
    term->scheme = can ? scheme : CS_SCHEME_MONO;
    term->n_pairs = 0;
    term->is_all_dirty = true;
}

void cs_term_repaint(struct cs_term *term)
{
    term->is_all_dirty = true;
    clearok(stdscr, TRUE);
}

void cs_term_suspend(struct cs_term *term)
{
    cs_term_modes(false);
    endwin();
    kill(0, SIGTSTP); /* the whole foreground group, as the terminal would */
    cs_term_modes(true);
    cs_term_resize(term);
    refresh();
}

/* The colours of the themes "safe" and "safe-light": bright enough on black, dark enough on white, and what must be told apart is, for people who see
 * all colours and for those who lack one kind of cone. Formulas: contrast of WCAG 2.1; dichromats as Machado,
 * Oliveira and Fernandes simulate them (2009, severity 1); distance in CIE L*a*b*, D65. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "console/draw/theme.h"

struct rgb { /* linear light, 0..1 */
    double c[3];
};

static double linear(int byte)
{
    const double v = byte / 255.0;
    return v <= 0.04045 ? v / 12.92 : pow((v + 0.055) / 1.055, 2.4);
}

/* a colour of xterm's cube */
static struct rgb of_xterm(int color)
{
    static const int level[] = {0, 95, 135, 175, 215, 255};
    assert_in_range(color, 16, 231);
    const int at = color - 16;
    return (struct rgb){
        {linear(level[at / 36]), linear(level[at / 6 % 6]), linear(level[at % 6])}
    };
}

static double luminance(struct rgb v)
{
    return 0.2126 * v.c[0] + 0.7152 * v.c[1] + 0.0722 * v.c[2];
}

static const double eyes[][3][3] = {
    {{1, 0, 0},                        {0, 1, 0}, {0, 0, 1}}, /* all cones */
    {{0.152286, 1.052583, -0.204868},
     {0.114503, 0.786281, 0.099216},
     {-0.003882, -0.048116, 1.051998}                      }, /* no red */
    {{0.367322, 0.860646, -0.227968},
     {0.280085, 0.672501, 0.047413},
     {-0.011820, 0.042940, 0.968881}                       }, /* no green */
    {{1.255528, -0.076749, -0.178779},
     {-0.078411, 0.930809, 0.147602},
     {0.004733, 0.691367, 0.303900}                        }, /* no blue */
};

static struct rgb seen(struct rgb v, int eye)
{
    struct rgb out;
    for (int i = 0; i < 3; i++) {
        const double *m = eyes[eye][i];
        out.c[i] = fmin(1, fmax(0, m[0] * v.c[0] + m[1] * v.c[1] + m[2] * v.c[2]));
    }
    return out;
}

static double curve(double t)
{
    return t > 0.008856 ? cbrt(t) : 7.787 * t + 16.0 / 116;
}

static void to_lab(struct rgb v, double lab[3])
{
    const double x = curve((0.4124 * v.c[0] + 0.3576 * v.c[1] + 0.1805 * v.c[2]) / 0.95047),
                 y = curve(luminance(v)),
                 z = curve((0.0193 * v.c[0] + 0.1192 * v.c[1] + 0.9505 * v.c[2]) / 1.08883);
    lab[0] = 116 * y - 16;
    lab[1] = 500 * (x - y);
    lab[2] = 200 * (y - z);
}

static double distance(struct rgb a, struct rgb b)
{
    double p[3], q[3];
    to_lab(a, p);
    to_lab(b, q);
    return sqrt((p[0] - q[0]) * (p[0] - q[0]) + (p[1] - q[1]) * (p[1] - q[1]) +
                (p[2] - q[2]) * (p[2] - q[2]));
}

static double contrast(struct rgb a, struct rgb b)
{
    const double x = luminance(a) + 0.05, y = luminance(b) + 0.05;
    return x > y ? x / y : y / x;
}

/* fg on bg, the terminal's own being black or white */
static void check_contrast(enum cs_scheme scheme, struct rgb own)
{
    for (int s = 0; s < CS_STYLE_COUNT; s++) {
        const struct cs_look look = cs_theme_look(scheme, (enum cs_style)s);
        if (look.fg < 0 && look.bg < 0)
            continue;
        const struct rgb black = {
            {0, 0, 0}
        };
        const struct rgb fg = look.fg < 16 ? black : of_xterm(look.fg),
                         bg = look.bg < 0 ? own : of_xterm(look.bg);
        assert_true(look.fg == 0 || look.fg >= 16);
        if (!(contrast(fg, bg) >= 4.5))
            fail_msg("scheme %d, style %d: contrast %.2f", scheme, s, contrast(fg, bg));
    }
}

static void safe_colours_are_bright_or_dark_enough(void **state)
{
    (void)state;
    check_contrast(CS_SCHEME_SAFE, (struct rgb){
                                       {0, 0, 0}
    });
    check_contrast(CS_SCHEME_SAFE_LIGHT, (struct rgb){
                                             {1, 1, 1}
    });
}

static void safe_colours_are_told_apart_by_every_eye(void **state)
{
    (void)state;

    static const enum cs_style apart[][2] = {
        {CS_STYLE_FORWARD,  CS_STYLE_BACKWARD },
        {CS_STYLE_FORWARD,  CS_STYLE_OPTIMIZER},
        {CS_STYLE_BACKWARD, CS_STYLE_OPTIMIZER},
        {CS_STYLE_FROZEN,   CS_STYLE_TRAINS   },
        {CS_STYLE_FROZEN,   CS_STYLE_PASSES   },
        {CS_STYLE_PASSES,   CS_STYLE_TRAINS   },
        {CS_STYLE_GOOD,     CS_STYLE_WARN     },
        {CS_STYLE_GOOD,     CS_STYLE_BAD      },
        {CS_STYLE_WARN,     CS_STYLE_BAD      },
    };

    static const enum cs_scheme schemes[] = {CS_SCHEME_SAFE, CS_SCHEME_SAFE_LIGHT};

    for (size_t i = 0; i < 2 * sizeof apart / sizeof *apart; i++)
        for (int eye = 0; eye < 4; eye++) {
            const enum cs_style *pair = apart[i / 2];
            const struct rgb a = of_xterm(cs_theme_look(schemes[i % 2], pair[0]).fg),
                             b = of_xterm(cs_theme_look(schemes[i % 2], pair[1]).fg);
            const double d = distance(seen(a, eye), seen(b, eye));
            if (!(d >= 20)) /* about ten times what is just noticed */
                fail_msg("styles %d and %d, eye %d: %.1f apart", pair[0], pair[1], eye, d);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(safe_colours_are_bright_or_dark_enough),
        cmocka_unit_test(safe_colours_are_told_apart_by_every_eye),
    };
    return cmocka_run_group_tests_name("console/theme", tests, NULL, NULL);
}

/* How a chat template writes pictures, videos and sound: by contents that are lists of parts. */
#include <string.h>

#include "input/chat/learn.h"

#define PAD " \n"

/* Around the one or two texts of a question whose content has these parts; false: refused, or not so. */
struct view {
    const char *before, *between, *behind;
};

static bool look(const struct learn *l, const char *kinds, const char *pad, struct view *out)
{
    const char *one = cs_arena_printf(l->arena, "%skquserone%s", pad, pad);
    const char *two = cs_arena_printf(l->arena, "%skqusertwo%s", pad, pad);
    const struct learn_turn turns[] = {
        {.role = CS_TURN_SYSTEM, .text = "kqsystem"},
        {.role = CS_TURN_USER,   .text = one,        .kinds = kinds, .more = two},
        {.role = CS_TURN_ASSISTANT,           .text = "kqanswerone"                            },
    };
    const int skip = l->is_dated ? 0 : 1;
    const char *text = NULL, *at = NULL, *next = NULL, *answer = NULL;

    if (learn_render(l, turns + skip, 3 - skip, false, &text, NULL) != CS_OK)
        return false;
    at = strstr(text, "kquserone");
    next = strstr(text, "kqusertwo");
    answer = strstr(text, "kqanswerone");
    if (at == NULL || answer == NULL || answer < at ||
        (strchr(kinds, 't') != strrchr(kinds, 't')) != (next != NULL))
        return false;
    out->before = cs_arena_strndup(l->arena, text, (size_t)(at - text));
    at += strlen("kquserone");
    if (next != NULL && next < at)
        return false;
    out->between = next != NULL ? cs_arena_strndup(l->arena, at, (size_t)(next - at)) : "";
    at = next != NULL ? next + strlen("kqusertwo") : at;
    out->behind = cs_arena_strndup(l->arena, at, (size_t)(answer - at));
    return true;
}

/* Text that a question begins with becomes its lead, n bytes from its end. */
static void move_lead(const struct learn *l, struct cs_template *out, size_t n)
{
    struct cs_template_turn *user = &out->turn[CS_TURN_USER];
    size_t all = strlen(user->prefix);

    if (n == 0 || n > all || user->lead[0] != '\0')
        return;
    user->lead = user->prefix + all - n;
    user->prefix = cs_arena_strndup(l->arena, user->prefix, all - n);
}

/* Media stand where they stand in the content. marker: found behind a text. */
static bool take_in_place(const struct learn *l, int kind, const struct view *bare,
                          const struct view *front, const char *marker, struct cs_template *out)
{
    size_t n = strlen(front->before) - strlen(marker);

    if (!learn_ends(front->before, marker) || strlen(front->before) < strlen(marker) ||
        strlen(bare->before) < n || strncmp(bare->before, front->before, n) != 0)
        return false;
    if (n < strlen(bare->before)) { /* "User:" before a picture, "User: " before a text */
        move_lead(l, out, strlen(bare->before) - n);
        out->media.is_spaced[kind] = true;
    }
    return true;
}

/* All media before the text: what stands twice where there are two of them. */
static const char *take_first(const struct learn *l, const struct view *bare,
                              const struct view *one, const struct view *two,
                              struct cs_template *out)
{
    const size_t n = strlen(two->before) - strlen(one->before), all = strlen(bare->before);

    if (strlen(two->before) <= strlen(one->before) || strlen(one->before) != all + n)
        return NULL;
    for (size_t k = 0; k <= all; k++) {
        const char *marker = cs_arena_strndup(l->arena, one->before + k, n);
        const char *twice = cs_arena_printf(l->arena, "%.*s%s%s%s", (int)k, bare->before, marker,
                                            marker, bare->before + k);
        if (strncmp(one->before, bare->before, k) != 0 || strcmp(twice, two->before) != 0)
            continue;
        if (all - k <= strlen(out->turn[CS_TURN_USER].prefix))
            move_lead(l, out, all - k);
        out->media.is_first = true;
        return marker;
    }
    return NULL;
}

/* The number of a medium in a marker that counts: where the marker of the second one has a 2. NULL: none. */
static const char *number_in(const char *marker, const char *both)
{
    const size_t n = strlen(marker);
    const char *second = strlen(both) > 2 * n ? both + strlen(both) - n : NULL;

    for (size_t i = 0; second != NULL && i < n; i++)
        if (marker[i] == '1' && second[i] == '2')
            return marker + i;
    return NULL;
}

static const char *marker_of(const struct learn *l, int k, const struct view *bare,
                             struct cs_template *out)
{
    const char kind = LEARN_MEDIA[k];
    const char text_first[] = {'t', kind, '\0'}, medium_first[] = {kind, 't', '\0'};
    const char two_first[] = {kind, kind, 't', '\0'};
    struct view behind, front, two;

    if (!look(l, text_first, "", &behind) || !look(l, medium_first, "", &front) ||
        !look(l, two_first, "", &two))
        return NULL;
    if (strcmp(behind.before, bare->before) == 0 && learn_ends(behind.behind, bare->behind)) {
        const char *marker = learn_without_end(l, behind.behind, bare->behind);
        if (marker[0] != '\0' && take_in_place(l, k, bare, &front, marker, out)) {
            out->media.number[k] = number_in(marker, two.before);
            return marker;
        }
    }
    return take_first(l, bare, &front, &two, out);
}

/* What stands for a medium while the table is tried: its marker, without a number that changes. */
static const char *token_of(const struct learn *l, const struct cs_template_media *media, int kind)
{
    const char *marker = media->marker[kind], *number = media->number[kind];

    if (marker == NULL || number == NULL)
        return marker != NULL ? marker : "";
    return number[1] != '\0' ? number + 1
                             : cs_arena_strndup(l->arena, marker, (size_t)(number - marker));
}

/* Two questions, both with these parts. */
static bool is_alike(const struct learn *l, const struct cs_template *chat, const char *parts,
                     const char *const *tokens)
{
    const struct learn_turn question = {
        .role = CS_TURN_USER, .text = " a\n", .kinds = parts, .more = "\n\tb "};
    const struct learn_turn answer = {.role = CS_TURN_ASSISTANT, .text = "c"};
    const struct learn_turn turns[] = {
        {.role = CS_TURN_SYSTEM, .text = "s"},
        question, answer, question, answer
    };
    const int skip = l->is_dated ? 0 : 1;

    return learn_compare(l, chat, turns + skip, 3 - skip, tokens, NULL) == CS_OK &&
           learn_compare(l, chat, turns + skip, 5 - skip, tokens, NULL) == CS_OK;
}

/* Questions with media in every order; what the table says of them must be right. */
static bool is_right(const struct learn *l, const struct cs_template *chat)
{
    static const char *const orders[] = {"ct", "tc", "cct", "tct", "ctc", "tctc"};
    const char *tokens[CS_MEDIA];

    for (int k = 0; k < CS_MEDIA; k++)
        tokens[k] = token_of(l, &chat->media, k);
    for (int k = 0; k < CS_MEDIA; k++)
        for (size_t i = 0; i < CS_ARRAY_LEN(orders) && chat->media.marker[k] != NULL; i++) {
            char parts[8] = {0};
            if (chat->media.is_first && strchr(orders[i], 't') != strrchr(orders[i], 't'))
                continue; /* one text is what such templates are written for */
            for (size_t c = 0; orders[i][c] != '\0'; c++)
                parts[c] = orders[i][c] == 'c' ? LEARN_MEDIA[k] : 't';
            if (!is_alike(l, chat, parts, tokens))
                return false;
        }
    return true;
}

void learn_media(const struct learn *l, struct cs_template *out)
{
    struct cs_template table = *out;
    struct view bare, both;

    if (!look(l, "t", "", &bare))
        return;
    for (int k = 0; k < CS_MEDIA; k++)
        table.media.marker[k] = marker_of(l, k, &bare, &table);
    if (look(l, "tt", "", &both))
        table.media.has_leads =
            both.between[0] != '\0' && strcmp(both.between, table.turn[CS_TURN_USER].lead) == 0;
    if (table.turn[CS_TURN_USER].is_trimmed && look(l, "tt", PAD, &both))
        table.media.is_trimmed = strstr(both.between, PAD) == NULL;
    if (is_right(l, &table))
        *out = table;
}

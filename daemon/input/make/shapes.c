/* Draws the sample data set of coloured shapes and writes its questions and answers. */
#include "input/make/shapes.h"

#include <jansson.h>
#include <png.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/philox.h"
#include "core/base/system/io.h"

enum { SIDE = 32, CELL = SIDE / 2, RADIUS = 6, KINDS = 4, QUESTIONS = 4 };

static const char *const shape_names[KINDS] = {"circle", "square", "triangle", "cross"};
static const char *const place_names[KINDS] = {"northwest", "northeast", "southwest", "southeast"};
static const char *const count_names[KINDS] = {"one", "two", "three", "four"};

static const struct {
    const char *name;
    uint8_t rgb[3];
} colours[KINDS] = {
    {"red",    {220, 40, 40} },
    {"green",  {40, 190, 60} },
    {"blue",   {60, 80, 230} },
    {"yellow", {230, 210, 40}},
};

struct picture {
    int n;           /* shapes */
    int cell[KINDS]; /* of shape i */
    int shape[KINDS];
    int colour[KINDS];
};

struct dice {
    uint64_t seed, stream, next;
};

static int roll(struct dice *dice, int sides)
{
    return (int)(cs_philox_uniform(dice->seed, dice->stream, dice->next++) * (double)sides);
}

static void shuffle(struct dice *dice, int *list)
{
    for (int i = 0; i < KINDS; i++)
        list[i] = i;
    for (int i = KINDS - 1; i > 0; i--) {
        int j = roll(dice, i + 1), t = list[i];
        list[i] = list[j];
        list[j] = t;
    }
}

static void draw_picture(struct dice *dice, struct picture *p)
{
    p->n = 1 + roll(dice, KINDS);
    shuffle(dice, p->cell);
    shuffle(dice, p->shape);
    shuffle(dice, p->colour);
}

static bool covers(int shape, int x, int y) /* relative to the centre, in [-CELL/2, CELL/2) */
{
    int ax = x < 0 ? -x : x, ay = y < 0 ? -y : y;
    switch (shape) {
    case 0:
        return x * x + y * y <= RADIUS * RADIUS;
    case 1:
        return ax < RADIUS && ay < RADIUS;
    case 2:
        return y >= -RADIUS && y < RADIUS && 2 * ax <= y + RADIUS;
    default:
        return (ax <= 1 && ay <= RADIUS) || (ay <= 1 && ax <= RADIUS);
    }
}

static void paint(const struct picture *p, uint8_t pixels[SIDE][SIDE][3])
{
    memset(pixels, 24, (size_t)SIDE * SIDE * 3);
    for (int i = 0; i < p->n; i++) {
        int cx = (p->cell[i] % 2) * CELL + CELL / 2;
        int cy = (p->cell[i] / 2) * CELL + CELL / 2;
        for (int y = -CELL / 2; y < CELL / 2; y++)
            for (int x = -CELL / 2; x < CELL / 2; x++)
                if (covers(p->shape[i], x, y))
                    memcpy(pixels[cy + y][cx + x], colours[p->colour[i]].rgb, 3);
    }
}

static enum cs_status save_png(const char *path, uint8_t pixels[SIDE][SIDE][3], struct cs_err *err)
{
    png_image image;
    memset(&image, 0, sizeof(image));
    image.version = PNG_IMAGE_VERSION;
    image.width = image.height = SIDE;
    image.format = PNG_FORMAT_RGB;
    if (!png_image_write_to_file(&image, path, 0, pixels, 0, NULL))
        return cs_fail(err, CS_IO, "writing %s: %s", path, image.message);
    return CS_OK;
}

/* question q about shape i of the picture; answers are single phrases */
static void ask(const struct picture *p, int q, int i, char *question, size_t cap,
                const char **answer)
{
    switch (q) {
    case 0:
        snprintf(question, cap, "What colour is the shape in the %s?", place_names[p->cell[i]]);
        *answer = colours[p->colour[i]].name;
        break;
    case 1:
        snprintf(question, cap, "Which shape is in the %s?", place_names[p->cell[i]]);
        *answer = shape_names[p->shape[i]];
        break;
    case 2:
        snprintf(question, cap, "Where is the %s shape?", colours[p->colour[i]].name);
        *answer = place_names[p->cell[i]];
        break;
    default:
        snprintf(question, cap, "How many shapes are there?");
        *answer = count_names[p->n - 1];
    }
}

static void add_turns(struct dice *dice, const struct picture *p, int q, bool is_first,
                      json_t *turns, struct cs_buf *text)
{
    char question[96];
    const char *answer;
    ask(p, q, roll(dice, p->n), question, sizeof(question), &answer);
    json_array_append_new(turns,
                          json_pack("{s:s s:o}", "from", "human", "value",
                                    json_sprintf("%s%s", is_first ? "<image>\n" : "", question)));
    json_array_append_new(turns, json_pack("{s:s s:s}", "from", "gpt", "value", answer));
    cs_buf_addf(text, "user\n%s\nassistant\n%s\n", question, answer);
}

static void add_sample(json_t *samples, const char *set, int index, int q, const char *image,
                       json_t *turns)
{
    json_array_append_new(samples, json_pack("{s:o s:s s:o}", "id",
                                             json_sprintf("%s-%05d-%d", set, index, q), "image",
                                             image, "conversations", turns));
}

/* Training: conversations of all questions in any order, one starting with each kind. Test: one
 * question a sample, so that every answer is counted alone and has seen no other. */
static void add_samples(struct dice *dice, const struct picture *p, const char *set, bool is_test,
                        int index, const char *image, json_t *samples, struct cs_buf *text)
{
    for (int q = 0; q < QUESTIONS; q++) {
        json_t *turns = json_array();
        int order[KINDS];
        shuffle(dice, order);
        add_turns(dice, p, q, true, turns, text);
        for (int i = 0; i < QUESTIONS && !is_test; i++)
            if (order[i] != q)
                add_turns(dice, p, order[i], false, turns, text);
        add_sample(samples, set, index, q, image, turns);
    }
}

static enum cs_status make_set(const char *dir, bool is_test, uint64_t seed, int n,
                               struct cs_buf *text, struct cs_err *err)
{
    const char *set = is_test ? "test" : "train";
    char path[CS_PATH_CAP], name[64];
    uint8_t pixels[SIDE][SIDE][3];
    enum cs_status status = CS_OK;
    json_t *samples = json_array();
    for (int i = 0; i < n && status == CS_OK; i++) {
        struct dice dice = {seed, (uint64_t)i + (is_test ? UINT64_C(1) << 32 : 0), 0};
        struct picture p;
        draw_picture(&dice, &p);
        paint(&p, pixels);
        snprintf(name, sizeof(name), "%s-%05d.png", set, i);
        status = cs_path(path, err, "%s/images/%s", dir, name);
        if (status == CS_OK)
            status = save_png(path, pixels, err);
        add_samples(&dice, &p, set, is_test, i, name, samples, text);
    }
    if (status == CS_OK)
        status = cs_path(path, err, "%s/%s.json", dir, set);
    char *json = status == CS_OK ? json_dumps(samples, JSON_INDENT(1)) : NULL;
    if (json)
        status = cs_write_file_atomic(path, json, strlen(json), 0666, err);
    free(json);
    json_decref(samples);
    return status;
}

enum cs_status cs_shapes_make(const char *dir, const struct cs_shapes_options *options,
                              struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    enum cs_status status = cs_path(path, err, "%s/images", dir);
    if (status == CS_OK)
        status = cs_mkdirs_shared(path, err);
    if (status == CS_OK)
        status = make_set(dir, false, options->seed, options->n_train, &text, err);
    if (status == CS_OK)
        status = make_set(dir, true, options->seed, options->n_test, &text, err);
    if (status == CS_OK)
        status = cs_path(path, err, "%s/text.txt", dir);
    if (status == CS_OK)
        status = cs_write_file_atomic(path, cs_buf_str(&text), text.len, 0666, err);
    cs_buf_free(&text);
    return status;
}

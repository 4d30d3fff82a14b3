/* Tensors of a part in the result of a conversion. Tensors that one product reads are a group
 * (cs_param_role_group) and lie one behind the other in the order of their group, in files that keep
 * them together as well; so each tensor of the result is a stretch of the group's elements. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/system/cores.h"
#include "store/convert/parts.h"

/* One part on its way. */
struct part {
    struct cs_conversion *c;
    enum cs_module_kind kind;
    const struct cs_hfdir *dir;
    struct cs_arch from, to;
    struct cs_tensor_info *source; /* (n_source) */
    int n_source;
};

/* Closure of one tensor of the result: elements from `at` on of its group. */
struct stretch {
    const struct part *part;
    const struct cs_tensor_info *first; /* a tensor of the source's that is of the group */
    int64_t at, count;
    bool is_alone; /* it is that tensor */
};

static int64_t count_of(const struct cs_tensor_info *info)
{
    int64_t count = 1;
    for (int d = 0; d < info->n_dims; d++)
        count *= info->dim[d];
    return count;
}

static bool is_of_group(const struct cs_tensor_info *a, const struct cs_tensor_info *b)
{
    if (a->layer_kind != b->layer_kind || a->layer != b->layer)
        return false;
    const struct cs_role_group of_a = cs_param_role_group(a->role, a->part),
                               of_b = cs_param_role_group(b->role, b->part);
    return of_a.group != 0 ? of_a.group == of_b.group
                           : of_b.group == 0 && a->role == b->role && a->part == b->part;
}

static int order_of(const struct cs_tensor_info *info)
{
    return cs_param_role_group(info->role, info->part).order;
}

/* Elements of the group before a tensor. */
static int64_t place_of(const struct cs_tensor_info *list, int n, const struct cs_tensor_info *one)
{
    int64_t at = 0;
    for (int i = 0; i < n; i++)
        if (is_of_group(&list[i], one) && order_of(&list[i]) < order_of(one))
            at += count_of(&list[i]);
    return at;
}

static enum cs_status read_alone(const struct stretch *s, float *out, struct cs_err *err)
{
    const struct cs_tensor_info *info = s->first;
    const struct cs_st_tensor *t = cs_hfdir_tensor(s->part->dir, info->name, info->alt);
    return cs_hfdir_read(t, info->role, info->dim, info->n_dims, cs_cores_each(1), out, err);
}

static enum cs_status read_group(const struct stretch *s, float *out, struct cs_err *err)
{
    const struct part *p = s->part;
    for (int i = 0; i < p->n_source; i++) {
        const struct cs_tensor_info *info = &p->source[i];
        if (!is_of_group(info, s->first))
            continue;
        const int64_t begin = place_of(p->source, p->n_source, info), end = begin + count_of(info);
        const int64_t from = s->at > begin ? s->at : begin;
        const int64_t to = s->at + s->count < end ? s->at + s->count : end;
        const struct cs_st_tensor *t = cs_hfdir_tensor(p->dir, info->name, info->alt);
        if (from < to)
            CS_TRY(cs_st_read_finite(t, from - begin, to - from, out + (from - s->at), err));
    }
    return CS_OK;
}

/* what is finite stays finite */
static enum cs_status check_range(const struct cs_st_out *tensor, const float *values,
                                  int64_t count, struct cs_err *err)
{
    static const float largest = 65504;
    for (int64_t i = 0; tensor->dtype == CS_F16 && i < count; i++)
        if (fabsf(values[i]) > largest)
            return cs_fail(err, CS_INVALID,
                           "%s: element %lld is %g, and float16 ends at %g: take bfloat16",
                           tensor->name, (long long)i, (double)values[i], (double)largest);
    return CS_OK;
}

static enum cs_status fill(void *user, const struct cs_st_out *tensor, float *out,
                           struct cs_err *err)
{
    const struct stretch *s = user;
    CS_TRY(s->is_alone ? read_alone(s, out, err) : read_group(s, out, err));
    return check_range(tensor, out, s->count, err);
}

static enum cs_status fill_rest(void *user, const struct cs_st_out *tensor, float *out,
                                struct cs_err *err)
{
    const struct cs_st_tensor *from = user;
    CS_TRY(cs_st_read_f32(from, 0, from->count, out, err));
    return check_range(tensor, out, from->count, err);
}

static struct cs_st_out *add(struct cs_conversion *c, enum cs_module_kind kind, const char *name,
                             enum cs_dtype dtype, const int64_t *dim, int n_dims)
{
    CS_ASSERT(c->n_out < c->room);
    struct cs_st_out *out = &c->out[c->n_out];
    const bool is_float = dtype <= CS_F64;
    *out = (struct cs_st_out){.name = cs_convert_name(c, kind, name),
                              .dtype = is_float && c->dtype != CS_DTYPES ? c->dtype : dtype,
                              .n_dims = n_dims};
    memcpy(out->dim, dim, (size_t)n_dims * sizeof *dim);
    c->report->n_tensors++;
    if (out->name == NULL || !cs_hfdir_has_disk_name(c->part[kind], out->name))
        c->report->n_renamed++;
    c->n_out++;
    return out;
}

/* The tensor of the source that begins the group, or is the same one; NULL: it has none. */
static const struct cs_tensor_info *find_group(const struct part *p,
                                               const struct cs_tensor_info *one)
{
    for (int i = 0; i < p->n_source; i++)
        if (is_of_group(&p->source[i], one) &&
            cs_hfdir_tensor(p->dir, p->source[i].name, p->source[i].alt) != NULL)
            return &p->source[i];
    return NULL;
}

/* As the files have it, or with the prefix of version 4. */
static const char *spelling(const struct part *p, const struct cs_tensor_info *info)
{
    const struct cs_st_tensor *found = cs_hfdir_tensor(p->dir, info->name, info->alt);
    if (p->c->asked->names == CS_CONVERT_NAMES_v4 && cs_convert_has_prefix(p->c, p->kind, info))
        return info->alt;
    return p->c->asked->names == CS_CONVERT_NAMES_keep && found != NULL ? found->name : info->name;
}

static enum cs_status add_stretch(const struct part *p, const struct cs_tensor_info *info,
                                  const char *name, int64_t at)
{
    struct cs_conversion *c = p->c;
    const struct cs_tensor_info *first = find_group(p, info);
    if (first == NULL)
        return cs_fail(c->err, CS_CORRUPT, "%s: %s is missing", cs_hfdir_path(p->dir), info->name);
    const struct cs_st_tensor *held = cs_hfdir_tensor(p->dir, first->name, first->alt);
    struct stretch *s = CS_NEW(c->arena, struct stretch);
    const bool is_alone = strcmp(first->name, info->name) == 0 && count_of(first) == count_of(info);
    *s = (struct stretch){p, first, at, count_of(info), is_alone};
    struct cs_st_out *out = add(c, p->kind, name, held->dtype, info->dim, info->n_dims);
    out->fill = fill;
    out->fill_user = s;
    return CS_OK;
}

/* All experts of a block as one tensor: (experts, rows, columns). */
static struct cs_tensor_info whole_of(const struct part *p, const struct cs_tensor_info *list,
                                      int n, const struct cs_tensor_info *first)
{
    struct cs_tensor_info out = *first;
    int64_t pieces = 0;
    for (int i = 0; i < n; i++)
        pieces += list[i].whole != NULL && strcmp(list[i].whole, first->whole) == 0;
    out.name = first->whole;
    out.alt = NULL;
    if (pieces == 1)
        return out;
    out.n_dims = 3;
    out.dim[0] = p->to.experts.n;
    out.dim[1] = pieces / p->to.experts.n * first->dim[0];
    out.dim[2] = first->dim[1];
    return out;
}

/* Whether experts of a block become one tensor: where their files have it so, or it is asked for. */
static enum cs_status choose_experts(const struct part *p, const struct cs_tensor_info *list, int n,
                                     bool *is_fused)
{
    const enum cs_convert_experts asked = p->c->asked->experts;
    const struct cs_tensor_info *first = NULL;
    for (int i = 0; i < n && first == NULL; i++)
        first = list[i].whole != NULL ? &list[i] : NULL;
    *is_fused = first != NULL && asked == CS_CONVERT_EXPERTS_fused;
    if (first != NULL && asked == CS_CONVERT_EXPERTS_keep) {
        const char *disk = cs_convert_name(p->c, p->kind, first->whole);
        *is_fused = disk != NULL && cs_hfdir_has_disk_name(p->dir, disk);
    }
    if (asked == CS_CONVERT_EXPERTS_each && first == NULL && cs_arch_expert_blocks(&p->to) > 0)
        return cs_fail(p->c->err, CS_UNSUPPORTED,
                       "%s: files of %s have all experts of a block together, there is no layout "
                       "with each of them",
                       cs_hfdir_path(p->dir), p->to.family);
    return CS_OK;
}

static enum cs_status add_infos(struct part *p, const struct cs_tensor_info *list, int n)
{
    bool is_fused;
    CS_TRY(choose_experts(p, list, n, &is_fused));
    for (int i = 0; i < n; i++) {
        if (!is_fused || list[i].whole == NULL) {
            CS_TRY(add_stretch(p, &list[i], spelling(p, &list[i]), place_of(list, n, &list[i])));
        } else if (list[i].whole_at == 0) {
            const struct cs_tensor_info whole = whole_of(p, list, n, &list[i]);
            CS_TRY(add_stretch(p, &whole, whole.name, 0));
        }
    }
    return CS_OK;
}

/* The name of a tensor that is in no table, with the prefix that the others get. */
static const char *rest_name(const struct part *p, const char *name)
{
    const struct cs_tensor_info *first = p->n_source > 0 ? &p->source[0] : NULL;
    const bool is_tower = first != NULL && cs_convert_has_prefix(p->c, p->kind, first);
    const size_t len = is_tower ? strlen(first->alt) - strlen(first->name) : 0;
    if (!is_tower || p->c->asked->names == CS_CONVERT_NAMES_keep)
        return name;
    const bool is_long = strncmp(name, first->alt, len) == 0;
    if (p->c->asked->names != CS_CONVERT_NAMES_v4)
        return is_long ? name + len : name;
    return is_long ? name : cs_arena_printf(p->c->arena, "%.*s%s", (int)len, first->alt, name);
}

/* What the architecture does not read goes along: pools, masks of pretraining. */
static enum cs_status add_rest(struct part *p)
{
    struct cs_unread *unread = NULL;
    const int n = cs_hfdir_unread(p->dir, &p->from, p->c->arena, &unread);
    for (int i = 0; i < n; i++) {
        const struct cs_st_tensor *t = cs_hfdir_tensor(p->dir, unread[i].name, NULL);
        if (cs_hfdir_is_foreign(&p->from, unread[i].name) &&
            strcmp(unread[i].name, "lm_head.weight") == 0)
            continue; /* the embedding once more */
        struct cs_st_out *out =
            add(p->c, p->kind, rest_name(p, t->name), t->dtype, t->dim, t->n_dims);
        if (out->dtype == CS_F16 && t->dtype != CS_F16) {
            out->fill = fill_rest;
            out->fill_user = (void *)(uintptr_t)t;
        } else {
            out->from = t;
        }
    }
    return CS_OK;
}

/* The same model as the other layout's family has it. */
static enum cs_status read_to(struct part *p)
{
    struct cs_conversion *c = p->c;
    p->to = p->from;
    if (c->from == c->to || p->kind != CS_MODULE_ENCODER)
        return CS_OK;
    const json_t *config = json_object_get(c->config, c->to->encoder_key);
    return cs_arch_from_config(config, c->arena, &p->to, c->err);
}

enum cs_status cs_convert_part(struct cs_conversion *c, enum cs_module_kind kind)
{
    struct part *p = CS_NEW(c->arena, struct part);
    struct cs_tensor_info *list = NULL;
    *p = (struct part){.c = c, .kind = kind, .dir = c->part[kind]};
    CS_TRY(cs_hfdir_arch(p->dir, NULL, c->arena, &p->from, c->err));
    CS_TRY(cs_hfdir_check(p->dir, &p->from, c->err));
    CS_TRY(read_to(p));
    p->n_source = cs_arch_tensors(&p->from, c->arena, &p->source);
    const int n = cs_arch_tensors(&p->to, c->arena, &list);
    const int room = c->n_out + n + cs_hfdir_count(p->dir) + 1;
    if (room > c->room) {
        struct cs_st_out *more = CS_NEW_ARRAY(c->arena, struct cs_st_out, 2 * room);
        if (c->n_out > 0)
            memcpy(more, c->out, (size_t)c->n_out * sizeof *more);
        c->out = more;
        c->room = 2 * room;
    }
    CS_TRY(add_infos(p, list, n));
    return add_rest(p);
}

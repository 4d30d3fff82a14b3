/* Matrices of experts that a file has turned: Qwen3-VL-MoE's files hold (experts, in, out) where its
 * class, and what save_pretrained writes since, has (experts, out, in). As in transformers the shape
 * tells; where both fit it is as the class has it. */
#include <stdlib.h>

#include "store/hf/hfdir.h"

static bool has_shape(const struct cs_st_tensor *tensor, const int64_t *dim, int n_dims)
{
    bool is_same = tensor->n_dims == n_dims;
    for (int i = 0; is_same && i < n_dims; i++)
        is_same = tensor->dim[i] == dim[i];
    return is_same;
}

static bool is_turned(const struct cs_st_tensor *tensor, enum cs_param_role role,
                      const int64_t *dim, int n_dims)
{
    const bool is_expert = role == CS_PARAM_EXPERT_GATE_W || role == CS_PARAM_EXPERT_DOWN_W;
    const int64_t turned[] = {dim[0], n_dims == 3 ? dim[2] : 0, dim[1]};
    return is_expert && n_dims == 3 && has_shape(tensor, turned, 3);
}

bool cs_hfdir_fits(const struct cs_st_tensor *tensor, enum cs_param_role role, const int64_t *dim,
                   int n_dims)
{
    return has_shape(tensor, dim, n_dims) || is_turned(tensor, role, dim, n_dims);
}

/* (rows, columns) from (columns, rows) */
static void turn(int64_t rows, int64_t columns, const float *from, float *to)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            to[r * columns + c] = from[c * rows + r];
}

enum cs_status cs_hfdir_read(const struct cs_st_tensor *tensor, enum cs_param_role role,
                             const int64_t *dim, int n_dims, int threads, float *out,
                             struct cs_err *err)
{
    enum cs_status status = CS_OK;
    if (has_shape(tensor, dim, n_dims) || !is_turned(tensor, role, dim, n_dims))
        return cs_st_read_all_finite(tensor, threads, out, err);
    const int64_t n = dim[1] * dim[2];
    float *matrix = malloc((size_t)n * sizeof *matrix + 1);
    if (matrix == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to read %s", tensor->name);
    for (int64_t e = 0; status == CS_OK && e < dim[0]; e++) {
        status = cs_st_read_finite(tensor, e * n, n, matrix, err);
        if (status == CS_OK)
            turn(dim[1], dim[2], matrix, out + e * n);
    }
    free(matrix);
    return status;
}

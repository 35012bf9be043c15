/* The loop of pipeline/eloreplay/kernel.py in C, for the benchmark: the same record a player, the same order of every operation,
   the same pow(). What it is built with (c_loop.py) leaves out -ffast-math and fused multiply-add, as the compiled Python does. */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    double rating;
    double experience;
    double peak_rating;
    int64_t peak_us;
    int64_t last_us;
    int32_t games;
    int32_t wins;
    int32_t losses;
    int32_t draws;
    int64_t seen;
} player_t;

enum { K_BY_GAMES = 1, ROUND_HALF_AWAY = 1 };

static inline double least(double a, double b) { return b < a ? b : a; }
static inline double most(double a, double b) { return b > a ? b : a; }

static inline double round_half_away(double x) {
    double whole = (double)(int64_t)x; /* as the compiled Python truncates: no negative zero comes out */
    if (fabs(x - whole) >= 0.5) whole += x > 0.0 ? 1.0 : -1.0;
    return whole;
}

static inline double bounded(double rating, double change, double floor_, double cap, double max_change) {
    change = least(most(change, -max_change), max_change);
    double after = rating + change;
    if (change < 0.0 && after < floor_) {
        change = least(floor_ - rating, 0.0);
    } else if (change > 0.0 && after > cap) {
        change = most(cap - rating, 0.0);
    }
    return change;
}

static inline double own_k(double k, const player_t *player, double length, int axis, int64_t first, int64_t last,
                           const double *k_from, const double *k_value, double height, double ramp_length, bool ramp_after) {
    if (axis != 0) {
        double x = axis == K_BY_GAMES ? (double)player->games : player->rating;
        double found = k_value[first];
        for (int64_t step = first + 1; step < last; step++) {
            if (k_from[step] <= x) found = k_value[step];
        }
        k *= found;
    }
    if (height > 1.0) {
        double experience = ramp_after ? player->experience + length : player->experience;
        k *= most(1.0, height - (height - 1.0) * experience / ramp_length);
    }
    return k;
}

static inline void move(player_t *player, double change, int64_t now) {
    player->rating += change;
    player->seen = 1;
    if (player->rating > player->peak_rating) {
        player->peak_rating = player->rating;
        player->peak_us = now;
    }
}

void replay_games(int64_t n_games, int64_t n_awards,
                  const int32_t *winner, const int32_t *loser, const int64_t *played_us, const double *score,
                  const double *advantage, const double *divisor, const double *stake, const double *winner_k,
                  const double *loser_k, const double *match_length, const int16_t *version,
                  const int32_t *award_player, const int64_t *award_us, const double *award_points,
                  player_t *state,
                  const int8_t *k_axis, const int64_t *k_first, const int64_t *k_last, const double *k_from,
                  const double *k_value, const double *ramp_height, const double *ramp_length, const bool *ramp_after,
                  int64_t rounding, double floor_, double cap, double max_change,
                  double *out_before, double *out_change, double *out_expected, double *out_k, int32_t *out_games,
                  double *out_experience, double *award_before, double *award_change) {
    int64_t award = 0;
    for (int64_t i = 0; i <= n_games; i++) {
        int64_t now = i < n_games ? played_us[i] : INT64_MAX;
        while (award < n_awards && award_us[award] <= now) {
            player_t *player = &state[award_player[award]];
            double change = bounded(player->rating, award_points[award], floor_, cap, INFINITY);
            award_before[award] = player->rating;
            award_change[award] = change;
            move(player, change, award_us[award]);
            award++;
        }
        if (i == n_games) break;

        player_t *w = &state[winner[i]];
        player_t *l = &state[loser[i]];
        int16_t v = version[i];
        double length = match_length[i];
        double w_rating = w->rating, l_rating = l->rating;
        double w_k = own_k(winner_k[i], w, length, k_axis[v], k_first[v], k_last[v], k_from, k_value, ramp_height[v],
                           ramp_length[v], ramp_after[v]);
        double l_k = own_k(loser_k[i], l, length, k_axis[v], k_first[v], k_last[v], k_from, k_value, ramp_height[v],
                           ramp_length[v], ramp_after[v]);
        double gap = w_rating + advantage[i] - l_rating;
        double expected = 1.0 / (1.0 + pow(10.0, -gap / divisor[i]));
        double w_change = w_k * stake[i] * (score[i] - expected);
        double l_change = l_k * stake[i] * (expected - score[i]);
        if (rounding == ROUND_HALF_AWAY) {
            w_change = round_half_away(w_change);
            l_change = round_half_away(l_change);
        }
        w_change = bounded(w_rating, w_change, floor_, cap, max_change);
        l_change = bounded(l_rating, l_change, floor_, cap, max_change);

        out_before[2 * i] = w_rating;
        out_before[2 * i + 1] = l_rating;
        out_change[2 * i] = w_change;
        out_change[2 * i + 1] = l_change;
        out_expected[i] = expected;
        out_k[2 * i] = w_k;
        out_k[2 * i + 1] = l_k;
        out_games[2 * i] = w->games;
        out_games[2 * i + 1] = l->games;
        out_experience[2 * i] = w->experience;
        out_experience[2 * i + 1] = l->experience;

        if (score[i] == 1.0) {
            w->wins++;
            l->losses++;
        } else {
            w->draws++;
            l->draws++;
        }
        w->games++;
        l->games++;
        w->experience += length;
        l->experience += length;
        w->last_us = now;
        l->last_us = now;
        move(w, w_change, now);
        move(l, l_change, now);
    }
}

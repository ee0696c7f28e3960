// The built-in surrogates; slope[] are their coefficients, the sigmoid has only alpha.
float surrogate(float distance) {
    precise float d = min(abs(distance), 1e18);
    if (SIGMOID) {
        float small = own_exp(-slope[0] * d), below = 1.0 + small;
        return divide(slope[0] * small, below * below);
    }
    return divide(slope[0] * max(1.0 - slope[3] * d, 0.0), 1.0 + d * (slope[1] + slope[2] * d));
}

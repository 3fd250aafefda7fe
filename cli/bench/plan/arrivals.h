#pragma once

#include <cstdint>
#include <random>

namespace lockstep::cli {

// When requests of an open loop arrive. Gaps follow a gamma distribution with mean 1 / rate.
// `burstiness` is its shape: 1 is a Poisson process, less has bursts, more is steadier.
class GammaArrivals {
 public:
  GammaArrivals(double rate, double burstiness, uint64_t seed)
      : random_(seed), gap_(burstiness, 1.0 / (rate * burstiness)) {}

  // Seconds since the start, ascending.
  double Next() { return at_ += gap_(random_); }

 private:
  std::mt19937_64 random_;
  std::gamma_distribution<double> gap_;
  double at_ = 0.0;
};

}  // namespace lockstep::cli

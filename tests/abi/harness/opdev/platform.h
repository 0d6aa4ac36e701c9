// Products in the vendor's unit tests. A test for another product than the session's ends there.
#pragma once

namespace op {

enum class SocVersion { ASCEND910B, ASCEND910_93, ASCEND950 };

struct OtherProduct {};

struct SocVersionManager {
    explicit SocVersionManager(SocVersion) { throw OtherProduct(); }
};

// Architecture of ASCEND950.
enum class NpuArch { DAV_3510 };

inline void SetPlatformNpuArch(NpuArch) { throw OtherProduct(); }

struct PlatformInfo {
    SocVersion GetSocVersion() const { return SocVersion::ASCEND910B; }
};

inline PlatformInfo GetCurrentPlatformInfo() { return {}; }

}  // namespace op
